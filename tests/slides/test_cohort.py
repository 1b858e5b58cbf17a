"""Cohort tables as people save them, and every problem of the bad ones."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aspirate.core.errors import CohortError
from aspirate.core.records import SlideEntry
from aspirate.slides.cohort import Cohort, parse_cohort
from aspirate.slides.table import BLANK

PLAIN = "slide_id,path,malignant,bethesda\na,slides/a.svs,1,5\nb,/far/b.svs,0,2\n"


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "cohort.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(CohortError) as raised:
        Cohort.read(path)
    return raised.value.problems


def test_every_column_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "slide_id,path,patient_id,malignant,bethesda,mpp,site,fold,reader_Ann,reader_bo,stain\n"
        "a,slides/a.svs,p1,1,5,0.25,north,3,IV,6,pap\n"
        "b,slides/b.svs,,,,,,,,,\n",
    )
    cohort = Cohort.read(path)
    assert cohort.entries == (
        SlideEntry("a", tmp_path / "slides/a.svs", "p1", True, 5, 0.25, "north", 3, {"Ann": 4, "bo": 6}),
        SlideEntry("b", tmp_path / "slides/b.svs"),
    )
    assert cohort.folder == tmp_path
    assert cohort.reader_names == ("Ann", "bo")
    assert cohort.unused_columns == ("stain",)
    assert Cohort.read(tmp_path) == cohort  # a folder stands for its cohort.csv


def test_paths_are_relative_to_the_table_unless_absolute(tmp_path: Path) -> None:
    first, second = Cohort.read(written(tmp_path, PLAIN)).entries
    assert first.path == tmp_path / "slides/a.svs"
    assert second.path == Path("/far/b.svs")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        b"\xef\xbb\xbf" + PLAIN.replace(",", ";").replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\n\n , ,\n").encode(),
        PLAIN.replace("slide_id", '"slide_id"').replace("a,slides", '" a ","slides').replace("s,1", 's",1').encode(),
        PLAIN.replace("slide_id,path", "SLIDE_ID,Path").encode(),
        PLAIN.replace(",bethesda\n", ",bethesda,,\n").replace("5\n", "5,,\n").encode(),
    ],
    ids=["bom", "crlf", "cr", "semicolons", "tabs", "excel", "blank-lines", "quoted", "case", "trailing"],
)
def test_the_same_table_saved_in_many_ways(tmp_path: Path, content: bytes) -> None:
    expected = Cohort.read(written(tmp_path, PLAIN)).entries
    assert Cohort.read(written(tmp_path, content)).entries == expected
    assert [entry.bethesda for entry in expected] == [5, 2]


def test_a_decimal_comma_between_semicolons(tmp_path: Path) -> None:
    assert Cohort.read(written(tmp_path, "slide_id;path;mpp\na;a.svs;0,25\n")).entries[0].mpp == 0.25


@pytest.mark.parametrize("title", ["wsi", "slide", "FILENAME"])
def test_aliases_of_path(tmp_path: Path, title: str) -> None:
    assert Cohort.read(written(tmp_path, f"slide_id,{title}\na,a.svs\n")).entries[0].path == tmp_path / "a.svs"


@pytest.mark.parametrize("title", ["case_id", "PATIENT", "patient"])
def test_aliases_of_patient_and_label(tmp_path: Path, title: str) -> None:
    (entry,) = Cohort.read(written(tmp_path, f"slide_id,path,{title},Label\na,a.svs,p,1\n")).entries
    assert (entry.patient_id, entry.malignant) == ("p", True)


def test_two_columns_of_one_meaning_are_a_problem_and_the_own_name_counts(tmp_path: Path) -> None:
    path = written(tmp_path, "slide_id,path,patient,patient_id\na,a.svs,wrong,right\n")
    cohort, problems = parse_cohort(path)
    assert cohort.entries[0].patient_id == "right"
    assert problems == ("header: column “patient” is the second that means patient_id; keep one",)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("benign", False), ("Malignant", True), (" MALIGNANT ", True), ("0", False), ("1.0", True)],
)
def test_malignant_as_words(tmp_path: Path, word: str, expected: bool) -> None:
    assert Cohort.read(written(tmp_path, f"slide_id,path,malignant\na,a.svs,{word}\n")).entries[0].malignant is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("II", 2), ("iii", 3), ("IV", 4), ("V", 5), ("VI", 6), ("TBS IV", 4), ("6.0", 6)]
)
def test_bethesda_as_roman_numerals(tmp_path: Path, text: str, expected: int) -> None:
    path = written(tmp_path, f"slide_id,path,bethesda,reader_x\na,a.svs,{text},{text}\n")
    (entry,) = Cohort.read(path).entries
    assert (entry.bethesda, entry.readers) == (expected, {"x": expected})


@pytest.mark.parametrize("blank", [*sorted(BLANK), "NaN", "None", "N/A", "  "])
def test_blank_is_unknown(tmp_path: Path, blank: str) -> None:
    header = "slide_id,path,patient_id,malignant,bethesda,mpp,site,fold,reader_x\n"
    path = written(tmp_path, header + "a,a.svs" + f",{blank}" * 7 + "\n")
    assert Cohort.read(path).entries == (SlideEntry("a", tmp_path / "a.svs"),)


def test_all_problems_are_listed_with_row_column_value_and_remedy(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "slide_id,path,malignant,bethesda,mpp,fold,reader_x\n"
        'a,"two\nlines.svs",1,2,0.25,0,3\n'  # rows 2 and 3
        "\n"
        "b,b.svs,perhaps,7,250,-1,0\n"
        ",c.svs,,,,,\n"
        "d,,,,,,\n"
        "../e,e.svs,,,,,\n"
        "A,a.svs,,,,,\n"
        "f,f.svs,0,2,0.25,1,3,4\n"
        "g,g.svs,0,2,inf,1.5,\n",
    )
    cohort, problems = parse_cohort(path)
    assert [problem.split(":")[0] for problem in problems] == (
        ["row 5"] * 5 + ["row 6", "row 7", "row 8", "row 9", "row 10", "row 11", "row 11"]
    )
    assert problems[0] == (
        "row 5: malignant 'perhaps': expected 0 or 1, or benign or malignant; correct it, or leave it blank if unknown"
    )
    for problem, words in zip(
        problems[1:],
        [
            ("bethesda '7'", "1 to 6"),
            ("mpp '250'", "0.05 to 10"),
            ("fold '-1'", "whole number"),
            ("reader_x '0'", "1 to 6"),
            ("slide_id", "enter"),
            ("path", "enter"),
            ("'../e'", "leave out slashes"),
            ("'A' is that of row 2", "its own"),
            ("8 cells under 7 column names", "quotation marks"),
            ("mpp 'inf'", "0.05 to 10"),
            ("fold '1.5'", "whole number"),
        ],
        strict=True,
    ):
        assert all(word in problem for word in words), problem
    assert [entry.slide_id for entry in cohort.entries] == ["a", "b", "A", "g"]
    assert cohort.entries[1] == SlideEntry("b", tmp_path / "b.svs")
    assert problems_of(path) == list(problems)
    with pytest.raises(CohortError, match=r"cohort\.csv: 12 problems\n  - row 5: malignant 'perhaps'"):
        Cohort.read(path)


@pytest.mark.parametrize("slide_id", ["a/b", "a\\b", "..", "a..b", ".", "a\x07b", "x" * 201])
def test_ids_that_cannot_name_a_file(tmp_path: Path, slide_id: str) -> None:
    (problem,) = problems_of(written(tmp_path, f"slide_id,path\n{slide_id},a.svs\n"))
    assert problem.startswith(f"row 2: slide_id {slide_id!r} ")


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("Straße", "STRASSE"), ("é", "e\u0301")])
def test_ids_that_name_the_same_file(tmp_path: Path, first: str, second: str) -> None:
    (problem,) = problems_of(written(tmp_path, f"slide_id,path\n{first},a.svs\n{second},b.svs\n"))
    assert problem == f"row 3: slide_id {second!r} is that of row 2 too; give each its own"


def test_a_byte_that_is_not_utf8_is_located(tmp_path: Path) -> None:
    content = "slide_id,path,site\na,a.svs,Köln\nb,b.svs,".encode() + b"Z\xfcrich\n"
    (problem,) = problems_of(written(tmp_path, content))
    assert problem == "row 3, byte 10 of the row: 0xfc is not UTF-8 text; save the table as “CSV UTF-8”"
    assert content.split(b"\n")[2][9:10] == b"\xfc"
    assert problems_of(written(tmp_path, b"\xef\xbb\xbf" + content)) == [problem]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"slide_id,path\n", "no slide"),
        (PLAIN.encode("utf-16"), "not plain text"),
        (b"II*\0\x08\0\0\0", "not plain text"),
        (b"a,slides/a.svs\n", "no column “slide_id”"),
        (b"slideid,path\na,a.svs\n", "no column “slide_id”; rename “slideid”"),
        (b"slide_id,paths\na,a.svs\n", "no column “path”; rename “paths”"),
        (b'slide_id,path\na,"a.svs\n', "quotation marks"),
        (b"slide_id,path\na," + b"x" * 200_000 + b"\n", "row 2"),
    ],
)
def test_what_is_no_cohort_at_all(tmp_path: Path, content: bytes, words: str) -> None:
    assert any(words in problem for problem in problems_of(written(tmp_path, content)))


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none.csv") == ["there is no such file; check the path"]
    assert problems_of(tmp_path) == ["there is no such file; check the path"]
    (tmp_path / "cohort.csv").mkdir()
    assert "Is a directory" in problems_of(tmp_path)[0]


def test_a_hundred_thousand_rows_are_fast(tmp_path: Path) -> None:
    rows = (f"s{i},slides/s{i}.tiff,p{i // 2},{i % 2},{2 + i % 5},0.25,x,{i % 5},II,3,\n" for i in range(100_000))
    header = "slide_id,path,patient_id,malignant,bethesda,mpp,site,fold,reader_a,reader_b,reader_c\n"
    path = written(tmp_path, header + "".join(rows))
    seconds = []
    for _ in range(2):  # the machine may be busy
        start = time.process_time()
        cohort = Cohort.read(path)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 3
    assert len(cohort.entries) == 100_000
    assert cohort.entries[-1].readers == {"a": 2, "b": 3}


words = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cn", "Co", "Cf"]), min_size=1
).filter(lambda text: text == text.strip() and text.lower() not in BLANK)
ids = words.filter(lambda text: not set(text) & set("/\\") and ".." not in text and text != "." and len(text) < 40)
maybe_bethesda = st.none() | st.integers(1, 6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), slide_ids=st.lists(ids, min_size=1, max_size=5, unique_by=lambda text: text.casefold()))
def test_what_was_written_reads_back_equal(tmp_path: Path, data: st.DataObject, slide_ids: list[str]) -> None:
    entries = tuple(
        SlideEntry(
            slide_id,
            data.draw(st.sampled_from([tmp_path / "slides" / f"{i}.svs", Path("/elsewhere/a, b.svs")])),
            data.draw(st.none() | words),
            data.draw(st.none() | st.booleans()),
            data.draw(maybe_bethesda),
            data.draw(st.none() | st.floats(0.05, 10)),
            data.draw(st.none() | words),
            data.draw(st.none() | st.integers(0, 9)),
            data.draw(st.dictionaries(st.sampled_from(["ann", "Bo"]), st.integers(1, 6))),
        )
        for i, slide_id in enumerate(slide_ids)
    )
    Cohort.write(tmp_path / "cohort.csv", entries)
    cohort, problems = parse_cohort(tmp_path / "cohort.csv")
    assert cohort.entries == entries
    assert all("is that of row" in problem for problem in problems)  # ids that differ only in NFC or case
