"use strict";
// Draws the tree that the two controls name, from the lists beside it. The first one is in the page already.
(() => {
  const data = JSON.parse(document.getElementById("trees-data").textContent);
  const box = document.getElementById("tree"), stage = document.getElementById("tree-stage");
  const output = document.getElementById("tree-output");
  const make = (name, text, kind) => {
    const own = document.createElement(name);
    if (text !== undefined) own.textContent = text;
    if (kind) own.className = kind;
    return own;
  };
  const rows = (n) => n.toLocaleString("en") + (n === 1 ? " row" : " rows");
  const item = (nodes, number, answer, depth) => {
    const node = nodes[number], li = make("li");
    const head = make("span");
    if (answer) head.append(make("span", answer, "answer"), " ");
    if (node.length === 2) {
      head.append(make("span", (node[0] >= 0 ? "+" : "−") + Math.abs(node[0]), node[0] >= 0 ? "up" : "down"));
      head.append(make("span", rows(node[1]), "more"));
      li.append(head);
      return li;
    }
    const details = make("details"), summary = make("summary"), list = make("ul");
    details.open = depth < 3;
    head.append(node[0] + "?");
    head.append(make("span", rows(node[1]) + ", gain " + node[2] + (node[3] ? ", missing: " + node[3] : ""), "more"));
    summary.append(head);
    list.append(item(nodes, node[4], "yes", depth + 1), item(nodes, node[4] + 1, "no", depth + 1));
    details.append(summary, list);
    li.append(details);
    return li;
  };
  const draw = () => {
    const wanted = Math.min(Math.max(1, Math.round(Number(stage.value)) || 1), data.trees.length);
    const list = make("ul");
    list.append(item(data.trees[wanted - 1][output ? output.selectedIndex : 0], 0, "", 0));
    box.replaceChildren(list);
  };
  stage.addEventListener("change", draw);
  if (output) output.addEventListener("change", draw);
  document.getElementById("tree-all").addEventListener("click", () => {
    const all = [...box.querySelectorAll("details")], open = all.some((own) => !own.open);
    all.forEach((own) => { own.open = open; });
  });
})();
