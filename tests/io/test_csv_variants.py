"""CSV as pandas, R and spreadsheets write it is read, or refused with the line and the cure: never misread."""

import csv
import io
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combopeps import ComboPepsError
from combopeps.errors import FileFormatError
from combopeps.session.measurement_table import read_results, read_rows
from combopeps.utils.csv_files import NotationError, decimal_mark, parse_cell, read_csv


def write(folder, content, encoding="utf-8"):
    path = folder / "history.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def table(folder, content, encoding="utf-8"):
    found = read_rows(write(folder, content, encoding))
    found.faults.check()
    return found.rows


def refused(folder, content, encoding="utf-8"):
    with pytest.raises(FileFormatError) as caught:
        table(folder, content, encoding)
    assert str(folder / "history.csv") in str(caught.value)
    return caught.value


PANDAS, PANDAS_TWICE, R, BARE = "index", "twice", "R", "bare"
LABELS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n"), min_size=1, max_size=12)
ROWS = st.lists(
    st.tuples(
        LABELS.filter(str.strip),
        st.floats(-1e9, 1e9).map(lambda x: round(x, 4)),
        st.one_of(st.none(), st.floats(0.01, 9)),
    ),
    min_size=1,
    max_size=8,
)


def written(rows, index, delimiter, decimal, newline, quoting):
    """As `index` writes its row numbers, in a file of this dialect."""
    out = io.StringIO()
    if newline == "\r":  # otherwise the writer takes a newline inside a label for none
        quoting = csv.QUOTE_ALL
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    front = {BARE: [], PANDAS: [""], R: [""], PANDAS_TWICE: ["Unnamed: 0.1", "Unnamed: 0"]}[index]
    writer.writerow([*front, "Label", "VALUE", "sem", "remark"])
    for i, (label, y, sem) in enumerate(rows):
        numbers = [("" if x is None else repr(x)).replace(".", decimal) for x in (y, sem)]
        writer.writerow([*[str(i + (index == R))] * len(front), label, *numbers, "x" * (i % 2)])
    return out.getvalue()


@settings(max_examples=200, deadline=None)
@given(
    rows=ROWS,
    index=st.sampled_from([BARE, PANDAS, PANDAS_TWICE, R]),
    dialect=st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ","), (",", ",")]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_was_written_is_what_is_read(tmp_path_factory, rows, index, dialect, newline, encoding, quoting):
    """Or the file is refused, where a mark cannot be told from one that sets thousands apart."""
    folder = tmp_path_factory.mktemp("csv")
    try:
        found = table(folder, written(rows, index, *dialect, newline, quoting), encoding)
    except FileFormatError as error:
        assert "or a decimal fraction" in str(error)  # noqa: PT017
        numbers = [repr(x) for row in rows for x in row[1:] if x is not None]
        assert all(len(x.partition(".")[2]) == 3 for x in numbers if "." in x)
        return
    assert [(label.replace("\r\n", "\n"), *numbers) for label, *numbers in found] == [(*row, 1) for row in rows]


def test_as_pandas_writes_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": [(0, 1), (1, 2)], "value": [1.25, -3.5], "count": [3, 1]})
    again = frame.copy()
    for _ in range(2):
        again.to_csv(tmp_path / "x.csv")
        found = read_rows(tmp_path / "x.csv").rows
        assert found == [("(0, 1)", 1.25, None, 3), ("(1, 2)", -3.5, None, 1)]
        again = pandas.read_csv(tmp_path / "x.csv")
    frame.to_csv(tmp_path / "x.csv", sep=";", decimal=",", encoding="utf-8-sig", lineterminator="\r\n")
    assert [value for _, value, *_ in read_rows(tmp_path / "x.csv").rows] == [1.25, -3.5]


def test_a_line_that_says_what_separates_fields(tmp_path):
    found = table(tmp_path, "sep=;\r\nlabel;value;a,b\r\nx;1,5;\r\n")
    assert [row[:2] for row in found] == [("x", 1.5)]
    assert refused(tmp_path, "sep=;\nlabel;value\nx;y\n").line == 3


def test_rows_and_columns_without_content_do_not_count(tmp_path):
    found = table(tmp_path, "\n\nlabel,value,,\n,,,\na,1,,\n\n , ,,\nb,2,,\n,,,\n")
    assert [row[:2] for row in found] == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize(
    ("text", "line", "field", "cure"),
    [
        ("", None, "", "a header and at least one row"),
        ("label,value\n", None, "", "a header and at least one row"),
        ("a,1\nb,2\n", 1, "label", "name it label"),
        ("label,result\na,1\n", 1, "value", "name it value; there are label, result"),
        ("label,value,Value\na,1,2\n", 1, "value", "leave one of them out"),
        ("label,y,mean\na,1,2\n", 1, "value", "'y' and 'mean' may both be the value"),
        ("label,source,target,value\na,b,c,2\n", 1, "label", "label and source, target"),
        ("label,value,std\na,1,2\n", 1, "std", "name it sem"),
        ("label,value,value\na,1,2\n", 1, "header", "duplicate column"),
        ("label,value,\na,1,2\n", 1, "header", "column 3 has no name"),
        ("label,value;sem\na,1;2\n", 1, "", "sep=,"),
        ("label,value\na,1\nb,2,5\n", 3, "", "separate them by commas"),
        ("label,value\na,2,5\n", 2, "", "write decimals with a point"),
        ('"label","value"\n"1","a",2\n"2","b",3\n', 2, "", "row.names=FALSE"),
        ("label,value\na,1\n,2\n", 3, "label", "say what was measured"),
        ('label,value\na,1\n"b,2\n', 3, "", "not CSV"),
        ("label,value\na,1\nb,1e999\n", 3, "value", "must be a finite number"),
        ("label,value\na,1\nb,inf\n", 3, "value", "must be a finite number"),
        ("label,value\na,1\nb,1_000\n", 3, "value", "without thousands separators"),
        ("label,value\na,1\nb,1 000\n", 3, "value", "without thousands separators"),
        ("label,value\na,1\nb,1'000.5\n", 3, "value", "without thousands separators"),
        ("label,value\na,1\nb,1\u202f000\n", 3, "value", "without thousands separators"),
        ("label,value\na,1\nb,١٢\n", 3, "value", "must be a finite number"),
        ("label,value\na,1\nb,5 %\n", 3, "value", "must be a finite number"),
        ('label,value\na,1\nb,"1,234.5"\n', 3, "value", "write thousands without separators"),
        ('label,value\na,1.5\nb,"2,5"\n', 3, "value", "elsewhere; write thousands"),
        ('label,value\na,1\nb,"1,234"\n', 3, "value", "may be 1234 or a decimal fraction"),
        ("label;value\na;1\nb;1,234\n", 3, "value", "may be 1234 or a decimal fraction"),
        ("label;value\na;1\nb;1.234\n", 3, "value", "separate fields by commas"),
        ("label;value\na;2,5\nb;1.234,5\n", 3, "value", "elsewhere; write thousands"),
        ("label;value\na;2,5\nb;1,234,567\n", 3, "value", "without thousands separators"),
        ("label,value,sem\na,1,0.1\nb,2,0\n", 3, "sem", "above 0"),
        ("label,value,sem\na,1,0.1\nb,2,-1\n", 3, "sem", "above 0"),
        ("label,value,count\na,1,1\nb,2,2.5\n", 3, "count", "whole number"),
        ("label,value,n\na,1,1\nb,2,0\n", 3, "count", "whole number"),
        ('label,value,n\na,1,1\nb,2,"1,000"\n', 3, "count", "without thousands separators"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_its_cure(tmp_path, text, line, field, cure):
    error = refused(tmp_path, text)
    assert (error.line, error.field) == (line, field)
    assert cure in str(error)


@pytest.mark.parametrize("missing", ["", " ", "NA", "NaN", "nan", "N/A", "#N/A", "null", "None", "-", "?", "<NA>"])
def test_a_result_that_is_missing_is_named_by_its_line(tmp_path, missing):
    error = refused(tmp_path, f'label,value\na,1\n"b\nc",2\nd,{missing}\ne,3\nf,{missing}\n')
    assert (error.line, error.field) == (5, "value")
    for part in ("line 5, value", "there is none", "leave such rows out", "2 of 5 rows are wrong, the next in line 7"):
        assert part in str(error)
    assert "nothing was taken" in str(error)


def test_what_need_not_be_there_may_be_missing(tmp_path):
    found = table(tmp_path, "label,value,se,n\na,1,,\nb,2,NA,NaN\nc,3,0.5,4.0\n")
    assert [row[2:] for row in found] == [(None, 1), (None, 1), (0.5, 4)]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("label,value\nMünchen,1\n".encode("latin-1"), "not UTF-8"),
        ("label,value\nb,1\n".encode("utf-16-le"), "not UTF-8"),
        ("label,value\nb,1\n".encode("utf-16-be"), "not UTF-8"),
        ("label,value\nb,1\n".encode("utf-32"), "not UTF-8"),
        ("label,value\nb,1\n".encode("utf-16") + b"\0", "not UTF-8"),
        (b"PK\x03\x04\x14\0\x06\0", "Excel workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Excel workbook"),
        (b"\x1f\x8b\x08\0", "unpack"),
        (b"PAR1\x15\x04", "read_parquet"),
    ],
)
def test_files_that_are_no_text_are_refused_by_name(tmp_path, content, part):
    assert part in str(refused(tmp_path, content))


@pytest.mark.parametrize("name", ["value", "Value ", "Y", "MEAN"])
def test_names_of_columns(tmp_path, name):
    assert table(tmp_path, f"{name}, ITEM ,Standard Error\n1,a,2\n")[0][2] == 2.0
    assert table(tmp_path, f"From,To,{name}\na,b,1\n")[0][0] == ("a", "b")
    assert table(tmp_path, f"source,target,key,{name},label_of_day\na,b,0,1,x\n")[0][0] == ("a", "b", "0")
    assert table(tmp_path, f"left,right,{name}\na,b,1\n")[0][0] == ("a", "b")
    assert table(tmp_path, f"label,item,{name}\na,b,1\n")[0][0] == "a"  # the name itself counts more


def test_results_by_number(tmp_path):
    path = write(tmp_path, ";ID;Label;Value\n0;7;a - b;1,5\n1;8;a - b;2\n")
    assert read_results(path) == [(7, 1.5, None), (8, 2.0, None)]
    for text, field in (("id,value\n1.0,2\n", "id"), ("id,value\n-1,2\n", "id"), ("id,value\n1,\n", "value")):
        with pytest.raises(FileFormatError) as caught:
            read_results(write(tmp_path, text))
        assert (caught.value.line, caught.value.field) == (2, field)
    with pytest.raises(FileFormatError, match="name it id"):
        read_results(write(tmp_path, "label,value\na,1\n"))


NUMBERS = st.floats(-1e12, 1e12).map(lambda x: round(x, 3))


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.sampled_from(".,"), st.sampled_from(",;\t"))
def test_numbers_are_read_as_they_were_meant_or_not_at_all(numbers, decimal, delimiter):
    cells = [repr(x).replace(".", decimal) for x in numbers]
    with suppress(NotationError):
        assert [parse_cell(cell, decimal_mark(cells, delimiter)) for cell in cells] == numbers


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5), st.sampled_from(",.'_ "), st.sampled_from(",;\t")
)
def test_thousands_are_never_taken_for_decimals(numbers, mark, delimiter):
    """Written as a spreadsheet shows them; only between commas is a point a decimal mark, whatever stands behind it."""
    cells = [f"{x:,}".replace(",", mark) for x in numbers]
    if mark == "." and delimiter == ",":
        return
    try:
        found = [parse_cell(cell, decimal_mark(cells, delimiter)) for cell in cells]
    except ValueError:
        assert any(abs(x) >= 1000 for x in numbers)
    else:
        assert found == numbers


@pytest.mark.parametrize("seed", range(150))
def test_damaged_files_raise_nothing_but_typed_errors(seed, tmp_path):
    rng = random.Random(seed)
    data = bytearray(b'\xef\xbb\xbf"";label;value;sem\r\n"1";"a; b";1,5;0,25\r\n2;c;-3e2;\r\n3;d;7;1\r\n')
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(2)] = bytes([rng.choice(b',";\n\r\0 .?e-1a\t' + bytes([rng.randrange(256)]))])
    path = write(tmp_path, bytes(data))
    for read in (read_csv, read_rows, read_results):
        with suppress(ComboPepsError):
            read(path)
