"use strict";
// What is selected in one part of the page is highlighted in all; tables and cards are sorted here.
(() => {
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const byId = (name) => document.getElementById(name);
  const cards = all(".card");
  const panels = []; // functions that highlight a cluster, or all of them (null)
  const touched = matchMedia("(pointer: coarse)").matches;
  let selected = null;

  function button(text, name) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = name;
    made.textContent = text;
    made.setAttribute("aria-pressed", "false");
    return made;
  }

  function select(cluster) {
    selected = cluster === selected ? null : cluster;
    for (const each of all("[data-cluster]")) {
      each.classList.toggle("selected", Number(each.dataset.cluster) === selected);
    }
    for (const each of all(".pick")) {
      each.setAttribute("aria-pressed", String(Number(each.dataset.pick) === selected));
    }
    for (const show of panels) show(selected);
    tell(cards.find((each) => Number(each.dataset.cluster) === selected));
  }

  function tell(card) {
    // Below the map: what the selected cluster is, and the way to its card.
    const where = byId("selection");
    if (!where) return; // no panels
    where.replaceChildren();
    if (!card) return;
    const link = document.createElement("a");
    link.href = `#${card.id}`;
    link.textContent = `Cluster ${card.dataset.cluster}`;
    const words = card.querySelector(".words")?.textContent;
    const share = card.querySelector(".share").textContent;
    where.append(link, [` (${share})`, words].filter(Boolean).join(": "));
  }

  // Cards

  function pickable() {
    for (const each of all("[data-pick]")) {
      const made = button(each.textContent, "pick");
      made.dataset.pick = each.dataset.pick;
      if (each.closest("tr")) made.setAttribute("aria-label", `Cluster ${each.dataset.pick}`);
      each.replaceWith(made);
    }
    for (const each of all(".card, tr[data-cluster]")) {
      each.addEventListener("click", (event) => {
        const pick = event.target.closest(".pick");
        if (event.target.closest("button") && !pick) return;
        if (!pick && String(getSelection()) !== "") return;
        select(Number((pick ?? each).dataset[pick ? "pick" : "cluster"]));
      });
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && selected !== null) select(null);
    });
  }

  function arrange() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const key = byId("sort").value;
    const sign = key === "cluster" ? 1 : -1;
    const order = [...cards].sort((a, b) => sign * (a.dataset[key] - b.dataset[key]));
    let shown = 0;
    for (const each of order) {
      const text = each.textContent.toLowerCase();
      each.hidden = !words.every((word) => text.includes(word));
      shown += !each.hidden;
      each.parentNode.append(each);
    }
    byId("status").textContent = `${shown} of ${cards.length} clusters`;
  }

  function comparable() {
    let chosen = [];
    for (const each of cards) {
      const made = button("Compare", "compare");
      made.setAttribute("aria-label", `Compare cluster ${each.dataset.cluster}`);
      made.addEventListener("click", () => {
        chosen = chosen.includes(each)
          ? chosen.filter((other) => other !== each)
          : [...chosen.slice(-1), each];
        for (const card of cards) {
          card.querySelector(".compare").setAttribute("aria-pressed", String(chosen.includes(card)));
        }
        compare(chosen);
      });
      each.append(made);
    }
  }

  function compare(chosen) {
    const where = byId("comparison");
    where.hidden = chosen.length < 2;
    if (where.hidden) return;
    const [one, other] = chosen.map((each) => each.dataset.cluster);
    const title = document.createElement("h3");
    title.textContent = `Clusters ${one} and ${other}`;
    const pair = document.createElement("div");
    for (const each of chosen) {
      const copy = each.cloneNode(true);
      copy.hidden = false;
      copy.removeAttribute("id");
      for (const made of all("button", copy)) {
        if (made.className === "pick") made.replaceWith(made.textContent);
        else made.remove();
      }
      pair.append(copy);
    }
    where.replaceChildren(title, pair);
    where.focus();
  }

  // Tables

  function sortable(table) {
    const body = table.tBodies[0];
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const made = document.createElement("button");
      made.type = "button";
      made.append(...head.childNodes);
      head.append(made);
      made.addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") === "descending";
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const value = (row) => row.cells[column].textContent.trim();
        const rows = [...body.rows].sort((a, b) => ordered(value(a), value(b)));
        body.append(...(rising ? rows : rows.reverse()));
      });
    });
  }

  function ordered(a, b) {
    const [x, y] = [a, b].map((text) => Number.parseFloat(text.replaceAll(",", "")));
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  }

  // Panels

  const finders = {
    // Each returns the index at a place of the plane, or -1, in the columns of its source.
    points: (data, x, y, scale) => nearest(data, x, y, scale, 12),
    bars: (data, x) => (Math.round(x) in data.cluster ? Math.round(x) : -1),
    boxes: (data, x, y) => {
      const [rows, columns] = data.image[0].shape;
      const column = Math.floor(((x - data.x[0]) / data.width[0]) * columns);
      const row = Math.floor(((y - data.y[0]) / data.height[0]) * rows);
      const inside = row >= 0 && row < rows && column >= 0 && column < columns;
      return inside ? row * columns + column : -1;
    },
  };

  function nearest(data, x, y, scale, most) {
    let best = -1;
    let least = most * most;
    for (let i = 0; i < data.x.length; i++) {
      const distance = ((data.x[i] - x) * scale[0]) ** 2 + ((data.y[i] - y) * scale[1]) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  const called = (cluster) => (cluster < 0 ? "other rows or noise" : `cluster ${cluster}`);
  const texts = {
    points: (data, i) => `row ${data.row[i].toLocaleString("en")}, ${called(data.cluster[i])}`,
    bars: (data, i) =>
      `${called(data.cluster[i])}: ${data.share[i].toPrecision(3)}% of the rows, weight ${data.weight[i].toLocaleString("en")}`,
    boxes: (data, i) =>
      `${called(data.cluster[0][i])}: ${data.share[0][i]}% of the weight here, ${data.weight[0][i].toLocaleString("en")}`,
  };

  function clusterAt(kind, data, index) {
    if (index < 0) return -2;
    return kind === "boxes" ? data.cluster[0][index] : data.cluster[index];
  }

  function fadeMarks(source) {
    const { cluster, alpha } = source.data;
    const full = alpha.slice();
    const known = new Set(cluster);
    return (chosen) => {
      const wanted = known.has(chosen) ? chosen : null;
      for (let i = 0; i < alpha.length; i++) {
        alpha[i] = wanted === null || cluster[i] === wanted ? full[i] : full[i] * 0.12;
      }
      source.change.emit();
    };
  }

  function fadeBoxes(source) {
    const image = source.data.image[0];
    const cluster = source.data.cluster[0];
    const full = image.slice();
    const known = new Set(cluster);
    return (chosen) => {
      const wanted = known.has(chosen) ? chosen : null;
      for (let i = 0; i < image.length; i++) {
        const pale = ((full[i] >>> 24) >> 3) << 24;
        image[i] = wanted === null || cluster[i] === wanted ? full[i] : (full[i] & 0xffffff) | pale;
      }
      source.change.emit();
    };
  }

  function connect(model, target) {
    const sources = new Map(model.renderers.map((each) => [each.data_source.name, each.data_source]));
    const kind = ["points", "boxes", "bars"].find((name) => sources.has(name));
    for (const [name, source] of sources) {
      panels.push(name === "boxes" ? fadeBoxes(source) : fadeMarks(source));
    }
    const data = sources.get(kind).data;
    const find = (event) => {
      const { inner_width: width, inner_height: height, x_range, y_range } = model;
      const scale = [width / (x_range.end - x_range.start), height / (y_range.end - y_range.start)];
      return finders[kind](data, event.x, event.y, scale);
    };
    if (touched) {
      // a finger on the map moves the page, until a tool is chosen
      for (const tool of model.toolbar.tools) if (tool.type === "PanTool") tool.active = false;
    }
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    target.parentNode.append(tip);
    model.on_event("tap", (event) => {
      const cluster = clusterAt(kind, data, find(event));
      if (cluster >= 0) select(cluster);
      else if (selected !== null) select(null);
    });
    model.on_event("mousemove", (event) => {
      const index = find(event);
      tip.hidden = clusterAt(kind, data, index) < -1;
      if (tip.hidden) return;
      tip.textContent = texts[kind](data, index);
      const left = Math.min(event.sx + 12, target.clientWidth - tip.offsetWidth);
      tip.style.left = `${Math.max(0, left)}px`;
      tip.style.top = `${event.sy + 16}px`;
    });
    model.on_event("mouseleave", () => {
      tip.hidden = true;
    });
  }

  async function embed(item) {
    const target = byId(item.target_id);
    if (!target) return;
    target.hidden = false;
    const views = await Bokeh.embed.embed_item(item);
    const model = views.roots[0].model;
    connect(model, target);
    target.parentNode.classList.add("embedded");
    if (model.toolbar.tools.length > 0) {
      const hint = document.createElement("span");
      hint.className = "hint";
      hint.textContent = touched
        ? " Tap to select a cluster."
        : " Drag to move, zoom by Ctrl and the wheel, click to select a cluster.";
      target.parentNode.querySelector("figcaption").append(hint);
    }
  }

  function printable() {
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = all("details:not([open])");
      for (const each of closed) each.open = true;
    });
    addEventListener("afterprint", () => {
      for (const each of closed) each.open = false;
    });
  }

  pickable();
  printable();
  all("table").forEach(sortable);
  if (cards.length > 0) {
    comparable();
    const form = document.querySelector(".tools");
    form.hidden = false;
    form.addEventListener("input", arrange);
    form.addEventListener("submit", (event) => event.preventDefault());
    arrange();
  }
  if (byId("panels")) {
    if (byId("selection")) byId("selection").hidden = false;
    for (const item of JSON.parse(byId("panels").textContent)) embed(item);
  }
})();
