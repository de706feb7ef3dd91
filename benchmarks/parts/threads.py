"""What the other threads gain, and one thread against one thread: workload A, each library."""

from __future__ import annotations

from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS, chosen
from benchmarks.table import plain
from benchmarks.timing import Plan, fastest, interleaved, medians, say, summary
from benchmarks.training import contestant, settings_of, warm_up
from benchmarks.workloads import WORKLOADS

__all__ = ["run"]


def run(options: Options) -> Outcome:
    workload, many = WORKLOADS["A"].sized(options.quick), max(2, options.threads)
    say(f"threads: {workload.title}")
    data = workload.data()
    rivals, _ = warm_up(chosen(options.rivals), settings_of(workload, many), data)
    runs = {
        f"{name}, {threads}": contestant(rival, settings_of(workload, threads), data)
        for name, rival in rivals.items()
        for threads in (1, many)
    }
    times = interleaved(runs, Plan.of(options), "threads")
    seconds = medians(times)
    one = {name: seconds[f"{name}, 1"] for name in rivals}
    gain = {name: one[name] / seconds[f"{name}, {many}"] for name in rivals}
    rows = [
        [RIVALS[name].title, f"{own:.3f}", f"{own / gain[name]:.3f}", f"{gain[name]:.2f}", f"{own / one[OURS]:.2f}"]
        for name, own in sorted(one.items(), key=lambda item: item[1])
    ]
    header = ["library", "1 thread s", f"{many} threads s", "gain", "1 thread ÷ ours"]
    lines = [f"threads: {workload.title}", plain(header, rows)]
    data_out = {
        "title": workload.title,
        "threads": many,
        "gain": gain,
        "seconds": {name: summary(own) for name, own in times.items()},
    }
    if len(one) > 1:
        peer = fastest(one)
        data_out["one_thread"] = {"fastest_peer": peer, "ratio": one[peer] / one[OURS]}
        lines.append(f"  one thread, fastest peer ÷ ours: {one[peer] / one[OURS]:.2f} ({RIVALS[peer].title})")
    return Outcome("\n".join(lines), data_out)
