"""What a file is made of: a checked container of named arrays, written so that a crash never leaves half of one."""
