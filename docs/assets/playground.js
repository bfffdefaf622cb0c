/* The playground: draws recorded runs, which the page carries, and computes nothing of its own. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("runs").textContent);
  const at = name => document.getElementById(`playground-${name}`);
  const [BEST, MEDIAN, MEAN, WORST] = [0, 1, 2, 3]; // rows of a run's regret
  const LOOKS = [{ colour: "#0072b2", dash: "" }, { colour: "#d55e00", dash: "7 4" }]; // Okabe, Ito
  const SPACE = { left: 52, right: 12, top: 12, bottom: 40, height: 280 };
  const marks = Object.values(data.runs)[0].regret[MEDIAN].length;
  const number = value => value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });
  let timer = null;

  function element(name, attributes = {}, text = "") {
    const svg = ["path", "line", "text"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  /* The two policies chosen, each with its run. */
  function chosen() {
    return ["first", "second"].map((which, k) => {
      const policy = at(which).value;
      return { policy, ...LOOKS[k], ...data.runs[`${at("noise").value}/${at("arms").value}/${policy}`] };
    });
  }

  /* Regret over the rounds until now: medians as lines, means as dots, best to worst as a band. */
  function drawRegret(runs, now) {
    const picture = at("regret"), width = Math.max(picture.parentNode.clientWidth, 240);
    const highest = Math.max(...runs.map(run => run.regret[WORST][marks - 1]));
    const logarithmic = at("log").checked;
    const scaled = value => logarithmic ? Math.log10(Math.max(value, 1)) : value;
    const x = mark => SPACE.left + (mark + 1) / marks * (width - SPACE.left - SPACE.right);
    const y = value => SPACE.height - SPACE.bottom
      - scaled(value) / scaled(highest) * (SPACE.height - SPACE.top - SPACE.bottom);
    const line = row => [0, ...row.slice(0, now + 1)]
      .map((value, m) => `${x(m - 1).toFixed(1)},${y(value).toFixed(1)}`);
    picture.setAttribute("viewBox", `0 0 ${width} ${SPACE.height}`);
    picture.replaceChildren();
    for (const value of ticks(highest, logarithmic)) {
      picture.append(
        element("line", { x1: SPACE.left, x2: width - SPACE.right, y1: y(value), y2: y(value), class: "grid" }),
        element("text", { x: SPACE.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
    }
    for (const part of [0, 0.5, 1]) {
      const anchor = part === 1 ? "end" : "middle";
      picture.append(element("text", { x: x(part * marks - 1), y: SPACE.height - 22, "text-anchor": anchor },
        number(part * data.rounds)));
    }
    picture.append(element("text", { x: (width + SPACE.left) / 2, y: SPACE.height - 4, "text-anchor": "middle" },
      "round"));
    for (const { colour, dash, regret } of runs) {
      const band = [...line(regret[WORST]), ...line(regret[BEST]).reverse()];
      picture.append(
        element("path", { d: `M${band.join("L")}Z`, fill: colour, "fill-opacity": 0.15 }),
        element("path", { d: `M${line(regret[WORST]).join("L")}`, stroke: colour, fill: "none", "stroke-width": 0.7 }),
        element("path", { d: `M${line(regret[MEAN]).join("L")}`, stroke: colour, fill: "none",
          "stroke-width": 3, "stroke-dasharray": "0 7", "stroke-linecap": "round" }),
        element("path", { d: `M${line(regret[MEDIAN]).join("L")}`, stroke: colour, fill: "none",
          "stroke-width": 2.5, "stroke-dasharray": dash, class: "median" }));
    }
  }

  function ticks(highest, logarithmic) {
    if (logarithmic) return [1, 10, 100, 1000, 10000].filter(value => value <= highest);
    const rough = highest / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(one => one >= rough);
    return Array.from({ length: Math.floor(highest / step) + 1 }, (_, k) => k * step);
  }

  /* How often each arm was played lately: a table, so that it can be read out. */
  function drawArms(runs, now) {
    const { means } = data.arms[at("arms").value];
    const head = element("tr");
    for (const text of ["arm", "mean", ...runs.map(run => run.policy)]) {
      head.append(element("th", { scope: "col" }, text));
    }
    const rows = means.map((mean, arm) => {
      const row = element("tr");
      row.append(element("th", { scope: "row" }, arm ? `${arm + 1}` : "1, the best"),
        element("td", {}, mean.toFixed(2)));
      for (const { percent, colour } of runs) {
        const cell = element("td"), bar = element("span", { class: "bar" });
        bar.style.cssText = `width:${percent[arm][now]}%;background:${colour}`;
        const track = element("span", { class: "track" });
        track.append(bar);
        cell.append(track, element("span", {}, `${percent[arm][now]} %`));
        row.append(cell);
      }
      return row;
    });
    at("shares").replaceChildren(element("caption", {}, at("shares").caption.textContent), head, ...rows);
  }

  /* The same in words; they are read out once the picture rests. */
  function tell(runs, now) {
    const round = (now + 1) * data.rounds / marks;
    const each = runs.map(({ policy, regret }) => `${policy} has lost ${number(regret[MEDIAN][now])} in the `
      + `median trial, ${number(regret[MEAN][now])} on average and ${number(regret[WORST][now])} in the worst`);
    at("now").textContent = number(round);
    at("time").setAttribute("aria-valuetext", `round ${number(round)}`);
    if (timer === null) at("said").textContent = `After ${number(round)} rounds ${each.join("; ")}.`;
    at("regret").setAttribute("aria-label", `Regret until round ${number(round)}: ${each.join("; ")}.`);
    at("key").replaceChildren(...runs.map(({ policy, colour, dash }) => {
      const item = element("li", {}, policy);
      item.style.cssText = `--colour:${colour};--line:${dash ? "dashed" : "solid"}`;
      return item;
    }));
  }

  function draw() {
    const runs = chosen(), now = Number(at("time").value);
    drawRegret(runs, now);
    drawArms(runs, now);
    tell(runs, now);
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    at("play").textContent = "Play";
    draw();
  }

  function play() {
    if (timer !== null) return pause();
    if (Number(at("time").value) === marks - 1) at("time").value = 0;
    at("play").textContent = "Pause";
    timer = setInterval(() => {
      at("time").value = Number(at("time").value) + 1;
      if (Number(at("time").value) === marks - 1) pause(); else draw();
    }, 80);
  }

  function fill(name, options, first) {
    for (const [value, text] of options) at(name).append(element("option", { value }, text));
    at(name).value = first;
    at(name).addEventListener("change", draw);
  }

  fill("noise", Object.entries(data.noises), "student");
  fill("arms", Object.entries(data.arms).map(([key, { name }]) => [key, name]), "apart");
  fill("first", data.policies.map(name => [name, name]), "Twin-UCB");
  fill("second", data.policies.map(name => [name, name]), "OFUL");
  at("time").max = at("time").value = marks - 1;
  at("time").addEventListener("input", () => (timer === null ? draw() : pause()));
  at("play").addEventListener("click", play);
  at("log").addEventListener("change", draw);
  at("made").textContent = `Recorded by ${data.command} at ${data.commit}, stamp ${data.stamp}.`;
  at("box").hidden = false;
  addEventListener("resize", draw);
  draw();
})();
