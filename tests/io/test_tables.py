"""CSV files of items and of workers and tasks."""

import csv
from contextlib import suppress

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from combopeps import ComboPepsError, load_instance, read_items, read_table, save_instance
from combopeps.errors import FileFormatError, MatchingError, ParameterError


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_items_written_by_the_csv_module(tmp_path):
    rng = np.random.default_rng(0)
    names = [f'item {i}, "quoted"\nover two lines' if i == 3 else f"item {i}" for i in range(20)]
    means = rng.normal(size=20)
    with (tmp_path / "x.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["clicks", "mean", "item"])
        writer.writerows(zip(range(20), means, names, strict=True))
    instance = read_items(tmp_path / "x.csv", k=4)
    assert list(instance.labels) == names
    assert np.array_equal(instance.theta, means)
    assert instance.best == {names[i] for i in np.argsort(means)[-4:]}
    save_instance(instance, tmp_path / "ours.json")
    assert load_instance(tmp_path / "ours.json").best == instance.best


def test_items_without_means(tmp_path):
    instance = read_items(write(tmp_path / "x.csv", "\ufeffbeer\r\nale\r\nbock\r\n"), 1, item="beer", prior_std=3.0)
    assert instance.theta is None
    assert instance.labels == ("ale", "bock")
    assert instance.problem.prior_std == 3.0


def test_columns_by_name(tmp_path):
    path = write(tmp_path / "x.csv", "id,ctr,cost\na,0.1,5\nb,0.2,4\n")
    assert read_items(path, 1, item="id", mean="ctr").best == {"b"}
    assert read_items(path, 1, item="id", mean="cost").best == {"a"}


def test_a_full_table(tmp_path):
    rng = np.random.default_rng(1)
    table = rng.random((5, 7))
    with (tmp_path / "x.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["worker", *(f"task {j}" for j in range(7))])
        writer.writerows([f"w{i}", *row] for i, row in enumerate(table))
    for maximize in (True, False):
        instance = read_table(tmp_path / "x.csv", maximize=maximize)
        rows, columns = linear_sum_assignment(table, maximize=maximize)
        assert instance.best == {f"w{i}": f"task {j}" for i, j in zip(rows, columns, strict=True)}
    assert instance.oracle.dim == 35


def test_an_empty_cell_forbids_the_pair(tmp_path):
    instance = read_table(write(tmp_path / "x.csv", "who,dig,plant\nann,3, 2\nbob,4,\n"))
    assert instance.labels == (("ann", "dig"), ("ann", "plant"), ("bob", "dig"))
    assert instance.theta.tolist() == [3.0, 2.0, 4.0]
    assert instance.best == {"ann": "plant", "bob": "dig"}


def test_question_marks_are_an_unknown_theta(tmp_path):
    instance = read_table(write(tmp_path / "x.csv", "who,dig,plant\nann,?,?\nbob,?,\n"))
    assert instance.theta is None
    assert instance.oracle.dim == 3


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("", None, ""),
        ("item,mean\n", None, ""),
        ("name,mean\na,1\n", 1, "item"),
        ("item,means\na,1\n", 1, "mean"),
        ("item,item\na,1\n", 1, "header"),
        ("item,\na,1\n", 1, "header"),
        ("item;mean,other\na;1,2\n", 1, ""),
        ("item mean\na 1\n", 1, "item"),
        ("item,mean\na,1\n\nb\n", 4, ""),
        ("item,mean\na,1\nb,1,2\n", 3, ""),
        ("item,mean\na,1\na,2\n", 3, "item"),
        ("item,mean\na,1\n ,2\n", 3, "item"),
        ("item,mean\na,1\nb,\n", 3, "mean"),
        ("item,mean\na,1\nb,nan\n", 3, "mean"),
        ("item,mean\na,1\nb,1e999\n", 3, "mean"),
        ("item,mean\na,1\nb,1_000\n", 3, "mean"),
        ("item,mean\na,1\nb,high\n", 3, "mean"),
        ('item,mean\na,1\n"b"x,2\n', 3, ""),
        ('item,mean\na,1\n"b,2\n', 3, ""),
    ],
)
def test_invalid_item_files(text, line, field, tmp_path):
    with pytest.raises(FileFormatError) as caught:
        read_items(write(tmp_path / "x.csv", text), 1)
    assert (caught.value.line, caught.value.field) == (line, field)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("who,dig,dig\nann,1,2\n", 1, "header"),
        ("who,dig\nann,1\nann,2\n", 3, "who"),
        ("who,dig,plant\nann,1,two\n", 2, "plant"),
        ("who,dig,plant\nann,1,?\n", 2, "plant"),
        ("who,dig,plant\nann,1\n", 2, ""),
    ],
)
def test_invalid_tables(text, line, field, tmp_path):
    with pytest.raises(FileFormatError) as caught:
        read_table(write(tmp_path / "x.csv", text))
    assert (caught.value.line, caught.value.field) == (line, field)


def test_tables_without_a_matching(tmp_path):
    for text in ("who,dig\nann,1\nbob,2\n", "who,dig,plant\nann,1,\nbob,2,\n"):
        with pytest.raises(MatchingError):
            read_table(write(tmp_path / "x.csv", text))
    with pytest.raises(ComboPepsError):
        read_table(write(tmp_path / "x.csv", "who\nann\n"))


def test_k_larger_than_the_number_of_items(tmp_path):
    with pytest.raises(ParameterError, match="k must be"):
        read_items(write(tmp_path / "x.csv", "item,mean\na,1\n"), 2)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "latin-1"])
def test_other_encodings(encoding, tmp_path):
    with pytest.raises(FileFormatError, match="UTF-8"):
        read_items(write(tmp_path / "x.csv", "item,mean\nkölsch,1\n", encoding), 1)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize("seed", range(100))
def test_damaged_tables_raise_typed_errors_only(seed, tmp_path):
    rng = np.random.default_rng(seed)
    data = bytearray(b'item,mean,"more"\nale,0.5,1\n"bock, dark",1.5,2\ncider,-3e2,3\n')
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(len(data))] = (
            rng.integers(256) if rng.random() < 0.3 else rng.choice(list(b',"\n\r\0 .?e-1a'))
        )
    (tmp_path / "x.csv").write_bytes(data)
    for read in (lambda path: read_items(path, 1), read_table):
        with suppress(ComboPepsError):
            read(tmp_path / "x.csv")
