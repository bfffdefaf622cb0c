"""A CSV file of yours: how heavy is the tail of one column, and what do the others say of its mean?

python examples/own_data.py [data.csv COLUMN [own_data.png]]

Without arguments it looks at the column revenue of visits.csv, which it writes where there is none.
"""

import csv
import os
import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht


def refuse(words):
    print(words, file=sys.stderr)
    sys.exit(2)


if len(sys.argv) == 2:
    refuse(f"Which column? python examples/own_data.py {sys.argv[1]} COLUMN")
if len(sys.argv) == 1 and not os.path.exists("visits.csv"):
    rng = np.random.default_rng(2)
    visits = rng.uniform(0.0, 10.0, (5_000, 2)).round(1)
    spent = (visits @ [6.0, -1.0] + 20.0) * 0.7 * rng.pareto(1.7, size=5_000)
    with open("visits.csv", "w", newline="") as file:
        rows = np.column_stack([visits, spent.round(2)]).tolist()
        csv.writer(file).writerows([["pages", "minutes", "revenue"], *rows])
path, column = sys.argv[1:3] if len(sys.argv) > 2 else ("visits.csv", "revenue")

try:
    with open(path, newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        mark = max(",;\t", key=first.count)  # between columns; a ; goes with decimal commas
        file.seek(0)
        table = list(csv.DictReader(file, delimiter=mark))
except (OSError, UnicodeError, csv.Error) as error:
    refuse(f"{path}: {error}. Give a CSV file.")
values = {}
for name in table[0] if table else []:
    try:
        cells = [row[name].replace(",", "." if mark == ";" else ",") for row in table]
        numbers = np.array([float(cell) for cell in cells])
        if not np.all(np.abs(numbers) < 1e100):  # nan, or without end
            raise ValueError
        values[name] = numbers
    except (ValueError, AttributeError):  # words, or an empty cell
        print(f"left out: {name}, which is not all numbers")
if column not in values or len(values) < 2:
    there = ", ".join(values) or "none"
    refuse(f"{path}: {column} must be a column of numbers beside others. There are: {there}.")
y = values.pop(column)
X = np.column_stack(list(values.values()))

try:
    report = ht.tails.diagnose(y)
except ValueError as error:  # too few rows
    refuse(f"{path}: {error}")
print(f"{path}: {column}\n{report}\n")
models = {
    "least squares": ht.OnlineRidge(standardize=True),
    "one-pass Huber": ht.OnePassHuberRegressor(standardize=True),
}
slopes = {name: model.fit(X, y).coef_ for name, model in models.items()}
for name, found in slopes.items():
    said = ", ".join(f"{one} {slope:.4g}" for one, slope in zip(values, found, strict=True))
    print(f"{name:<15} {column} per unit of {said}")

left, right = (figure := Figure(figsize=(6.4, 3.6), layout="constrained")).subplots(1, 2)
report.plot(left)
left.set_title(f"The tail of {column}", fontsize=10)
looks = [("#d55e00", "//", -0.2), ("#0072b2", "", 0.2)]  # Okabe and Ito, and a hatch
for (name, found), (colour, hatch, by) in zip(slopes.items(), looks, strict=True):
    at, look = np.arange(len(values)) + by, {"color": colour, "hatch": hatch, "edgecolor": "white"}
    right.barh(at, found * X.std(axis=0), 0.36, label=name, **look)
right.set(yticks=range(len(values)), yticklabels=list(values), xlabel="per deviation of the column")
right.set_title("What moves its mean", fontsize=10)
right.legend()
figure.savefig(sys.argv[3] if len(sys.argv) > 3 else "own_data.png", dpi=120)
