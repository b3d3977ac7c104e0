"""Small files as people have them, each with the reading that is right or with the refusal: exports of pandas, of Excel
in four languages, of R and scikit-learn; the habits of LIBSVM and UCI; images of phones and scanners; tokenisers'
outputs. `cases(directory)` writes them; corpus_judge compares what `p2pml data info` says."""

import base64
import collections
import gzip
import os
import random
import struct
import zlib

# path; settings of --set; what is right: a Reading, or words of the refusal; a warning that must come with a reading.
Case = collections.namedtuple("Case", "name path settings right warning")
# features and targets: {name: (least, most)}; classes: {name: examples}; picture: lines.
Reading = collections.namedtuple("Reading", "kind examples features classes targets picture")

CSV, SVM, ARRAYS, IMAGES = "a table (CSV)", "LIBSVM rows", "NumPy arrays", "a folder of images"
ROWS = 40
CHANCE = random.Random(11)
A = [round(CHANCE.gauss(3, 2), 2) for _ in range(ROWS)]
B = [CHANCE.randrange(3, 90) for _ in range(ROWS)]
C = [CHANCE.choice(["red", "green", "blue"]) for _ in range(ROWS)]
Y = [CHANCE.choice(["yes", "no"]) for _ in range(ROWS)]
Q = [round(2 * a + b / 7 + CHANCE.gauss(0, 1), 3) for a, b in zip(A, B)]
BIG = [1000 * CHANCE.randrange(900, 2500) + CHANCE.randrange(1000) for _ in range(ROWS)]
DAYS = [(2021 + i // 24, 1 + i % 12, 1 + 5 * i % 28) for i in range(ROWS)]


def spans(**columns):
    """{name: (least, most)} of columns of numbers; a column of words is one feature for each word."""
    found = {}
    for name, values in columns.items():
        if isinstance(values[0], str):
            found.update({f"{name}={word}": (0, 1) for word in sorted(set(values))})
        else:
            found[name] = (min(values), max(values))
    return found


def counted(values):
    return {str(v): values.count(v) for v in sorted(set(values))}


def table_reading(classes=Y, targets=None, **columns):
    return Reading(CSV, ROWS, spans(**columns), counted(classes) if targets is None else None, targets, None)


def lines(header, *columns, sep=",", end="\n"):
    rows = ([list(header)] if header else []) + [list(row) for row in zip(*columns)]
    return "".join(sep.join(str(v) for v in row) + end for row in rows)


def quoted(values):
    return [f'"{v}"' for v in values]


def comma(values, digits=2):
    return [f"{v:.{digits}f}".replace(".", ",") for v in values]


def grouped(values, mark, digits=0, point="."):
    return [f"{v:,.{digits}f}".replace(",", "\0").replace(".", point).replace("\0", mark) for v in values]


class Corpus:
    def __init__(self, directory):
        self.directory, self.cases = directory, []

    def path(self, name):
        return os.path.join(self.directory, name)

    def add(self, name, content, right, *settings, warning=None):
        path = self.path(name)
        if content is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        self.cases.append(Case(name, path, settings, right, warning))

    # -- tables

    def pandas(self):
        right = table_reading(a=A, b=B, c=C)
        head, columns = ("a", "b", "c", "y"), (A, B, C, Y)
        text = lines(head, *columns)
        self.add("pandas/plain.csv", text, right)
        self.add("pandas/plain.csv.gz", gzip.compress(text.encode()), right)
        self.add("pandas/semicolon.csv", lines(head, *columns, sep=";"), right)
        self.add("pandas/tab.tsv", lines(head, *columns, sep="\t"), right)
        self.add("pandas/bar.psv", lines(head, *columns, sep="|"), right)
        self.add("pandas/crlf.csv", lines(head, *columns, end="\r\n"), right)
        self.add("pandas/no_last_line_end.csv", text[:-1], right)
        self.add("pandas/quote_all.csv", lines(quoted(head), *(quoted(c) for c in columns)), right)
        self.add("pandas/quote_words.csv", lines(quoted(head), A, B, quoted(C), quoted(Y)), right)
        self.add("pandas/utf8_sig.csv", "\ufeff" + text, right)
        self.add("pandas/float_format.csv", lines(head, [f"{a:.6e}" for a in A], *columns[1:]), right)
        self.add("pandas/decimal_comma.csv", lines(head, comma(A), B, C, Y, sep=";"), right)
        self.add("pandas/decimal_comma_said.csv", lines(head, comma(A), B, C, Y, sep=";"), right, "data.decimal=comma")
        self.add("pandas/index.csv", lines(("", *head), range(ROWS), *columns), "the number of the row")
        self.add("pandas/index_ignored.csv", lines(("", *head), range(ROWS), *columns), right, "data.ignore=1")
        self.add("pandas/unnamed.csv", lines(("Unnamed: 0", *head), range(ROWS), *columns), "the number of the row")
        self.add("pandas/index_label.csv", lines(("id", *head), range(1, ROWS + 1), *columns), "a name of ids")
        self.add("pandas/obs.csv", lines(("obs", *head), range(1, ROWS + 1), *columns), "the number of the row")
        self.add("pandas/passengers.csv", lines(("PassengerId", *head), [892 + 3 * i for i in range(ROWS)], *columns),
                 "a name of ids")
        self.add("pandas/stores.csv", lines(("store_id", *head), [b % 5 for b in B], *columns), "a name of ids")
        self.add("pandas/grid.csv", lines(("grid", *head), B[::-1], *columns), table_reading(grid=B[::-1], a=A, b=B, c=C))
        self.add("pandas/records.json", '[{"a": 1.5, "y": "no"}, {"a": 2.5, "y": "yes"}]', "JSON")
        self.add("pandas/lines.jsonl", '{"a": 1.5, "y": "no"}\n{"a": 2.5, "y": "yes"}\n', "JSON")
        self.add("pandas/table.html", "<table><tr><td>1</td></tr></table>", "HTML")
        self.add("pandas/integer_header.csv", lines((0, 1, 2), A, [b + 0.5 for b in B], Y),
                 Reading(CSV, ROWS, spans(**{"0": A, "1": [b + 0.5 for b in B]}), counted(Y), None, None))
        labels = [int(y == "yes") for y in Y]
        self.add("pandas/integer_header_numbers.csv", lines((0, 1, 2), A, [b / 2 for b in B], labels),
                 Reading(CSV, ROWS, spans(**{"0": A, "1": [b / 2 for b in B]}), counted(labels), None, None))
        self.add("pandas/integer_header_of_integers.csv", lines((0, 1, 2), [b % 9 for b in B], [b % 7 for b in B], labels),
                 "may hold names or values")
        self.add("pandas/year_header.csv", lines(("c", 2019, 2020), C, A, labels),
                 Reading(CSV, ROWS, spans(c=C, **{"2019": A}), counted(labels), None, None))
        self.add("pandas/year_header_large.csv", lines(("c", 2019, 2020, "y"), C, BIG, [2 * v for v in BIG], Y),
                 "may hold names or values")
        self.add("pandas/year_header_near.csv", lines(("c", 2019, 2020), C, [1500 + 20 * b for b in B],
                                                      [1900 + 3 * b for b in B]), "may hold names or values")
        self.add("pandas/no_header.csv", lines(None, *columns),
                 Reading(CSV, ROWS, spans(**{"1": A, "2": B, "3": C}), counted(Y), None, None))
        self.add("pandas/nan.csv", lines(head, ["" if i == 7 else a for i, a in enumerate(A)], *columns[1:]), "a missing value")
        self.add("pandas/nan_word.csv", lines(head, ["NaN" if i == 7 else a for i, a in enumerate(A)], *columns[1:]),
                 "a missing value")
        self.add("pandas/inf.csv", lines(head, ["inf" if i == 7 else a for i, a in enumerate(A)], *columns[1:]),
                 "expected a number")
        self.add("pandas/bool.csv", lines(head, A, [str(b > 40) for b in B], C, Y),
                 table_reading(a=A, b=[str(b > 40) for b in B], c=C))
        iso = ["%04d-%02d-%02d" % d for d in DAYS]
        self.add("pandas/dates.csv", lines(("day", "a", "y"), iso, A, Y), "dates or times")
        self.add("pandas/datetimes.csv", lines(("t", "a", "y"), [d + " 12:30:00" for d in iso], A, Y), "dates or times")
        self.add("pandas/datetimes_zone.csv", lines(("t", "a", "y"), [d + "T12:30:00+01:00" for d in iso], A, Y), "dates or times")
        self.add("pandas/periods.csv", lines(("t", "a", "y"), [d[:7] for d in iso], A, Y), "dates or times")
        self.add("pandas/timedeltas.csv", lines(("t", "a", "y"), [f"{b % 24}:{b % 60:02}" for b in B], A, Y), "dates or times")
        self.add("pandas/compact_dates.csv", lines(("t", "a", "y"), [d.replace("-", "") for d in iso], A, Y),
                 "dates without marks")
        self.add("pandas/dates_as_categories.csv", lines(("m", "a", "y"), [d[:7] for d in iso], A, Y),
                 Reading(CSV, ROWS, spans(m=[d[:7] for d in iso], a=A), counted(Y), None, None), "data.categorical=m")
        self.add("pandas/uuid.csv", lines(("id", "a", "y"), [f"{zlib.crc32(b'%d' % i):08x}x" for i in range(ROWS)], A, Y),
                 "different words")
        self.add("pandas/names.csv", lines(("who", "a", "y"), [f"Person {chr(65 + i % 26)}{i}" for i in range(ROWS)], A, Y),
                 "different words")
        self.add("pandas/long_ids.csv", lines(("key", "a", "y"), [10 ** 17 + 7919 * b for b in range(ROWS)], A, Y),
                 "over 15 digits")
        self.add("pandas/zip_codes.csv", lines(("zip", "a", "y"), [f"{137 * b:05}" for b in B], A, Y), "as codes have it")
        self.add("pandas/zip_codes_said.csv", lines(("zip", "a", "y"), [f"{b % 3:05}" for b in B], A, Y),
                 Reading(CSV, ROWS, spans(zip=[f"{b % 3:05}" for b in B], a=A), counted(Y), None, None),
                 "data.categorical=zip")
        self.add("pandas/quantity.csv", lines(("a", "b", "q"), A, B, Q), table_reading(targets=spans(q=Q), a=A, b=B))
        self.add("pandas/quantity_comma.csv", lines(("a", "b", "q"), comma(A), B, comma(Q, 3), sep=";"),
                 table_reading(targets=spans(q=Q), a=A, b=B))
        seconds = [1700000000 + i / 5 for i in range(ROWS)]
        self.add("pandas/timestamps.csv", lines(("t", "a", "q"), seconds, A, Q),
                 table_reading(targets=spans(q=Q), t=seconds, a=A), warning="32-bit floats keep")
        self.add("pandas/two_headers.csv", "a,a,b,y\nmean,std,mean,\n" + lines(None, A, A, B, Y), "same name")
        self.add("pandas/extra_field.csv", text.replace("\n", ",\n", 1), "columns, expected")
        self.add("pandas/comment.csv", "# made by a script\n" + text, "columns, expected")

    def excel(self):
        languages = {"en": (",", ".", ",", "%m/%d/%Y", ("TRUE", "FALSE"), "#DIV/0!"),
                     "de": (";", ",", ".", "%d.%m.%Y", ("WAHR", "FALSCH"), "#DIV/0!"),
                     "fr": (";", ",", "\u202f", "%d/%m/%Y", ("VRAI", "FAUX"), "#DIV/0!"),
                     "it": (";", ",", ".", "%d/%m/%Y", ("VERO", "FALSO"), "#DIV/0!")}
        for tongue, (sep, point, mark, day, truth, broken) in languages.items():
            def out(name, content, right, *settings, **more):
                self.add(f"excel_{tongue}/{name}", content, right, *settings, **more)

            def number(values, digits=2):
                return [f"{v:.{digits}f}".replace(".", point) for v in values]

            head = ("a", "b", "c", "y")
            text = lines(head, number(A), B, C, Y, sep=sep, end="\r\n")
            right = table_reading(a=A, b=B, c=C)
            days = [day.replace("%Y", str(y)).replace("%m", f"{m:02}").replace("%d", f"{d:02}") for y, m, d in DAYS]
            cell = '"%s"' if sep == "," else "%s"
            out("plain.csv", text, right)
            out("utf8.csv", "\ufeff" + text, right)
            out("unicode_text.txt", ("\ufeff" + text.replace(sep, "\t")).encode("utf-16-le"), "UTF-16")
            out("tab.txt", lines(head, number(A), B, C, Y, sep="\t", end="\r\n"), right)
            out("sep.csv", f"sep={sep}\r\n" + text, right)
            out("latin1.csv", text.replace("a", "gr\u00f6\u00dfe", 1).encode("latin-1"), "UTF-8")
            out("umlaut.csv", text.replace("a", "gr\u00f6\u00dfe", 1),
                right._replace(features={**{"gr\u00f6\u00dfe": (min(A), max(A))}, **spans(b=B, c=C)}))
            out("truth.csv", lines(head, number(A), B, [truth[b % 2] for b in B], Y, sep=sep, end="\r\n"),
                table_reading(a=A, b=B, c=[truth[b % 2] for b in B]))
            out("thousands.csv", lines(("a", "b", "y"), number(A), [cell % v for v in grouped(BIG, mark)], Y, sep=sep),
                "thousands marks")
            out("money.csv", lines(("a", "b", "y"), number(A), [f"\u20ac {v}" for v in number(A)], Y, sep=sep)
                if sep == ";" else lines(("a", "b", "y"), A, [f"${v}" for v in A], Y), "with a unit")
            out("percent.csv", lines(("a", "b", "y"), number(A), [f"{b}%" for b in B], Y, sep=sep), "with a unit")
            out("days.csv", lines(("day", "a", "y"), days, number(A), Y, sep=sep), "dates or times")
            out("hours.csv", lines(("at", "a", "y"), [f"{b % 24:02}:{b % 60:02}:00" for b in B], number(A), Y, sep=sep),
                "dates or times")
            out("broken_cell.csv", lines(head, [broken if i == 3 else v for i, v in enumerate(number(A))], B, C, Y, sep=sep),
                ("expected a number", "expected a word"))
            out("empty_rows.csv", text + sep * 3 + "\r\n" + sep * 3 + "\r\n", "a missing value")
            out("exponent.csv", lines(("a", "b", "y"), number(A), [f"{b}E+03" for b in B], Y, sep=sep),
                table_reading(a=A, b=[1000.0 * b for b in B]))
            out("quantity.csv", lines(("a", "b", "q"), number(A), B, number(Q, 3), sep=sep),
                table_reading(targets=spans(q=Q), a=A, b=B))
        self.add("excel_de/mixed.csv", lines(("a", "b", "y"), comma(A), A, Y, sep=";"), ("decimal", "marks"))
        self.add("excel_de/whole_and_comma.csv",
                 lines(("a", "y"), [f"{a:g}".replace(".", ",") if i % 4 else int(a) for i, a in enumerate(A)], Y, sep=";"),
                 table_reading(a=[a if i % 4 else int(a) for i, a in enumerate(A)]))
        self.add("excel_de/single_thousands.csv", lines(("b", "y"), grouped([1000 + 100 * b for b in B], "."), Y, sep=";"),
                 "thousands mark or a decimal mark")
        self.add("excel_en/single_thousands.csv", lines(("b", "y"), quoted(grouped([1000 + 100 * b for b in B], ",")), Y),
                 ("decimal comma", "thousands"))
        self.add("excel_ch/apostrophes.csv", lines(("b", "y"), grouped(BIG, "'"), Y, sep=";"), "thousands marks")
        self.add("excel_fr/blanks.csv", lines(("b", "y"), grouped(BIG, "\u00a0"), Y, sep=";"), "thousands marks")

    def r(self):
        head, columns = ("a", "b", "c", "y"), (A, B, C, Y)
        right = table_reading(a=A, b=B, c=C)
        numbers = quoted(range(1, ROWS + 1))
        self.add("r/write_csv.csv", lines(quoted(("", *head)), numbers, A, B, quoted(C), quoted(Y)), "the number of the row")
        self.add("r/write_csv_said.csv", lines(quoted(("", *head)), numbers, A, B, quoted(C), quoted(Y)), right, "data.ignore=1")
        self.add("r/no_row_names.csv", lines(quoted(head), A, B, quoted(C), quoted(Y)), right)
        self.add("r/write_csv2.csv", lines(quoted(head), comma(A), B, quoted(C), quoted(Y), sep=";"), right)
        self.add("r/write_table.txt", lines(quoted(head), A, B, quoted(C), quoted(Y), sep=" "), right)
        rows = lines(None, numbers, A, B, quoted(C), quoted(Y), sep=" ")
        self.add("r/write_table_row_names.txt", " ".join(quoted(head)) + "\n" + rows, ("columns, expected", "fields"),
                 "data.kind=csv")
        self.add("r/no_quotes.txt", lines(head, *columns, sep=" "), right)
        self.add("r/tab.txt", lines(head, *columns, sep="\t"), right)
        self.add("r/na.csv", lines(quoted(head), ["NA" if i == 4 else a for i, a in enumerate(A)], B, quoted(C), quoted(Y)),
                 "a missing value")
        self.add("r/na_word.csv", lines(quoted(head), A, B, ["NA" if i == 4 else c for i, c in enumerate(quoted(C))], quoted(Y)),
                 "a missing value")
        self.add("r/scientific.csv", lines(quoted(head), [f"{a:e}" for a in A], B, quoted(C), quoted(Y)), right)
        self.add("r/dates.csv", lines(quoted(("day", "a", "y")), ["%04d-%02d-%02d" % d for d in DAYS], A, quoted(Y)),
                 "dates or times")
        self.add("r/logical.csv", lines(quoted(head), A, ["TRUE" if b > 40 else "FALSE" for b in B], quoted(C), quoted(Y)),
                 table_reading(a=A, b=["TRUE" if b > 40 else "FALSE" for b in B], c=C))
        self.add("r/model_names.csv", lines(quoted(("", "mpg", "y")), quoted(f"Model {i} {c}" for i, c in enumerate(C)), A, quoted(Y)),
                 "different words")

    def uci(self):
        labels = [b % 3 for b in B]
        self.add("uci/iris.data", lines(None, A, B, [f"Iris-{c}" for c in C]),
                 Reading(CSV, ROWS, spans(**{"1": A, "2": B}), counted([f"Iris-{c}" for c in C]), None, None))
        self.add("uci/iris_empty_end.data", lines(None, A, B, [f"Iris-{c}" for c in C]) + "\n", "an empty line")
        self.add("uci/wine.data", lines(None, labels, A, [7.3 * q for q in Q]), (), warning=None)
        self.cases[-1] = self.cases[-1]._replace(right=Reading(
            CSV, ROWS, spans(**{"1": labels, "2": A}), None, spans(**{"3": [7.3 * q for q in Q]}), None))
        self.add("uci/wine_said.data", lines(None, labels, A, Q),
                 Reading(CSV, ROWS, spans(**{"2": A, "3": Q}), counted(labels), None, None), "data.target=1")
        self.add("uci/adult.data", lines(None, B, C, [">50K" if y == "yes" else "<=50K" for y in Y], sep=", "),
                 Reading(CSV, ROWS, spans(**{"1": B, "2": C}),
                         counted([">50K" if y == "yes" else "<=50K" for y in Y]), None, None))
        self.add("uci/adult_missing.data", lines(None, B, ["?" if i == 9 else c for i, c in enumerate(C)], Y, sep=", "),
                 "a missing value")
        self.add("uci/adult.test", "|1x3 Cross validator\n" + lines(None, B, C, Y, sep=", "), ("columns", "delimiter"))
        mushroom = [CHANCE.choice("xbf") for _ in range(ROWS)], [CHANCE.choice("nyw") for _ in range(ROWS)]
        poison = ["p" if a == "x" else "e" for a in mushroom[0]]
        self.add("uci/mushroom.data", lines(None, *mushroom, poison),
                 Reading(CSV, ROWS, spans(**{"1": mushroom[0], "2": mushroom[1]}), counted(poison), None, None))
        self.add("uci/mushroom_header.csv", lines(("cap", "colour", "kind"), *mushroom, poison),
                 Reading(CSV, ROWS, spans(cap=mushroom[0], colour=mushroom[1]), counted(poison), None, None))
        doubtful = lines(None, mushroom[0], [f"w{i % 3}" if i else "once" for i in range(ROWS)], poison)
        self.add("uci/words_in_doubt.data", doubtful, "may hold names or values")
        self.add("uci/words_in_doubt_said.data", doubtful,
                 Reading(CSV, ROWS, spans(**{"1": mushroom[0], "2": [f"w{i % 3}" if i else "once" for i in range(ROWS)]}),
                         counted(poison), None, None), "data.header=no")
        self.add("uci/glass.data", lines(None, range(1, ROWS + 1), A, Q, labels), "the number of the row")
        self.add("uci/glass_said.data", lines(None, range(1, ROWS + 1), A, Q, labels),
                 Reading(CSV, ROWS, spans(**{"2": A, "3": Q}), counted(labels), None, None), "data.ignore=1")
        self.add("uci/seeds.txt", "".join(f"{a}\t{q}\t{'' if i % 3 else chr(9)}{c}\n" for i, (a, q, c) in enumerate(zip(A, Q, labels))),
                 ("columns, expected", "missing"), "data.kind=csv")
        self.add("uci/housing.data", "".join(f" {a:8.2f}  {b:5d}   {q:9.3f}\n" for a, b, q in zip(A, B, Q)),
                 Reading(CSV, ROWS, spans(**{"1": A, "2": B}), None, spans(**{"3": Q}), None))
        self.add("uci/yeast.data", "".join(f"P{i:05}_X  {a}  {b}  {c}\n" for i, (a, b, c) in enumerate(zip(A, B, C))),
                 "different words")
        self.add("uci/weather.arff", "@relation weather\n@attribute a numeric\n@attribute y {no,yes}\n@data\n" + lines(None, A, Y),
                 "ARFF")
        self.add("uci/commented.arff", "% 1. Title: weather\n@relation weather\n@data\n" + lines(None, A, Y), "ARFF")
        self.add("uci/ages.csv", lines(("age", "a", "y"), [("18-24", "25-34", "35+")[b % 3] for b in B], A, Y),
                 table_reading(age=[("18-24", "25-34", "35+")[b % 3] for b in B], a=A))
        self.add("uci/dose.csv", lines(("dose", "a", "y"), [f"{b}mg" for b in B], A, Y), "with a unit")
        self.add("uci/grades.csv", lines(("grade", "a", "y"), [("1st", "2nd", "3rd")[b % 3] for b in B], A, Y),
                 table_reading(grade=[("1st", "2nd", "3rd")[b % 3] for b in B], a=A))

    def sklearn(self):
        labels = [b % 3 for b in B]
        rows = lines(None, A, B, labels)
        self.add("sklearn/iris.csv", f"{ROWS},2,setosa\n" + rows,
                 Reading(CSV, ROWS, spans(**{str(ROWS): A, "2": B}), counted(labels), None, None))
        self.add("sklearn/savetxt.csv", lines(None, [f"{a:.18e}" for a in A], [f"{b:.18e}" for b in B], labels),
                 Reading(CSV, ROWS, spans(**{"1": A, "2": B}), counted(labels), None, None))
        self.add("sklearn/savetxt.txt", lines(None, [f"{a:.18e}" for a in A], [f"{q:.18e}" for q in Q], labels, sep=" "),
                 Reading(CSV, ROWS, spans(**{"1": A, "2": Q}), counted(labels), None, None))
        self.add("sklearn/savetxt_header.txt", "# a b y\n" + lines(None, A, Q, labels, sep=" "), ("columns", "fields"),
                 "data.kind=csv", "data.delimiter=space")

        def npy(values, kind, shape):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            code = {"<f4": "f", "<f8": "d", "<i8": "q", "|u1": "B"}[kind]
            return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{code}", *values)

        def npz(members):
            out, directory = b"", b""
            for name, data in members.items():
                entry = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), len(name), 0)
                directory += b"PK\1\2\x14\0" + entry + struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name.encode()
                out += b"PK\3\4" + entry + name.encode() + data
            return out + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(out), 0)

        flat = [v for pair in zip(A, B) for v in pair]
        right = Reading(ARRAYS, ROWS, {"feature 1": (min(A), max(A)), "feature 2": (min(B), max(B))}, counted(labels), None, None)
        for kind in ("<f4", "<f8"):
            self.add(f"sklearn/{kind[1:]}.npz", npz({"x.npy": npy(flat, kind, (ROWS, 2)), "y.npy": npy(labels, "<i8", (ROWS,))}), right)
        seconds = [1700000000 + i / 5 for i in range(ROWS)]
        self.add("sklearn/timestamps.npz", npz({"x.npy": npy(seconds, "<f8", (ROWS, 1)), "y.npy": npy(labels, "<i8", (ROWS,))}),
                 right._replace(features={"feature 1": (min(seconds), max(seconds))}), warning="32-bit floats keep")
        self.add("sklearn/only_x.npz", npz({"x.npy": npy(flat, "<f8", (ROWS, 2))}), "named y")
        self.add("sklearn/arr_0.npz", npz({"arr_0.npy": npy(flat, "<f8", (ROWS, 2))}), "named x")
        self.add("sklearn/object.npy", b"\x93NUMPY\1\0" + struct.pack("<H", 54) + b"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", ("type", "expected"))
        self.add("sklearn/quantity.npz", npz({"x.npy": npy(flat, "<f8", (ROWS, 2)), "y.npy": npy(Q, "<f8", (ROWS,))}),
                 right._replace(classes=None, targets=spans(y0=Q)))

    def libsvm(self):
        def rows(labels, pair="{}:{}", first=1, sep=" ", end="\n", extra=""):
            return "".join(sep.join([f"{y}{extra}", pair.format(first, a), pair.format(first + 1, b)]) + end
                           for y, a, b in zip(labels, A, B))

        features = {"feature 1": (min(A), max(A)), "feature 2": (min(B), max(B))}

        def right(labels):
            return Reading(SVM, ROWS, features, counted([int(v) for v in labels]), None, None)

        two = [1 if y == "yes" else 2 for y in Y]
        for name, labels in {"minus": [1 if v == 1 else -1 for v in two], "zero": [v - 1 for v in two], "one": two,
                             "three": [b % 3 + 1 for b in B], "gaps": [(1, 5, 9)[b % 3] for b in B],
                             "negative": [(-7, 0, 4)[b % 3] for b in B]}.items():
            self.add(f"libsvm/{name}.svm", rows(labels), right(labels))
        signs = [1 if v == 1 else -1 for v in two]
        self.add("libsvm/plus.svm", rows([f"{v:+d}" for v in signs]), right(signs))
        self.add("libsvm/float_labels.svm", rows([f"{v}.0" for v in two]), right(two))
        self.add("libsvm/exponents.svm", "".join(f"{y} 1:{a:e} 2:{b:e}\n" for y, a, b in zip(two, A, B)), right(two))
        self.add("libsvm/crlf.svm", rows(two, end="\r\n"), right(two))
        self.add("libsvm/tabs.svm", rows(two, sep="\t"), right(two))
        self.add("libsvm/trailing_blank.svm", rows(two, end=" \n"), right(two))
        self.add("libsvm/comments.svm", "".join(f"{y} 1:{a} 2:{b} # row {i}\n" for i, (y, a, b) in enumerate(zip(two, A, B))), right(two))
        self.add("libsvm/dump.svm", "# Generated by dump_svmlight_file\n# Column indices are one-based\n#\n" + rows(two), right(two))
        self.add("libsvm/zero_based.svm", rows(two, first=0), "index 0")
        self.add("libsvm/only_one.svm", rows([1] * ROWS), "data.labels")
        self.add("libsvm/only_one_said.svm", rows([1] * ROWS), right([1] * ROWS)._replace(classes={"1": ROWS, "2": 0}),
                 "data.labels=1,2")
        self.add("libsvm/quantity.svm", rows(Q), "regression")
        self.add("libsvm/weights.svm", rows(two, extra=":0.5"), "weight")
        self.add("libsvm/qid.svm", "".join(f"{y} qid:3 1:{a} 2:{b}\n" for y, a, b in zip(two, A, B)), "ranking")
        self.add("libsvm/multi.svm", rows([f"{v},{3 - v}" for v in two]), "one class an example")
        self.add("libsvm/unsorted.svm", "".join(f"{y} 2:{b} 1:{a}\n" for y, a, b in zip(two, A, B)), "expected ascending")
        self.add("libsvm/empty_line.svm", rows(two) + "\n" + rows(two), "an empty line")
        self.add("libsvm/nan.svm", rows(two).replace(f":{A[3]} ", ":nan ", 1), "not a finite decimal number")
        self.add("libsvm/words.svm", rows(["good" if v == 1 else "bad" for v in two]), ("columns", "label", "different words"),
                 "data.kind=libsvm", "data.features=2")
        self.add("libsvm/packed.svm.gz", gzip.compress(rows(two).encode()), "unpack it first")

    # -- images, texts, tokens

    JPEG = base64.b64decode(
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU"
        "FRUVDA8XGBYUGBIUFRT/wAALCAAQABgBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAAAAkK/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/a"
        "AAgBAQAAPwCqbKuAP//Z")
    WIDTH, HEIGHT = 24, 16

    def stored(self):
        """The pixels of JPEG: a white block in the corner above left."""
        return [[255 if x < 8 and y < 8 else 0 for x in range(self.WIDTH)] for y in range(self.HEIGHT)]

    @staticmethod
    def upright(pixels, orientation):
        rows = [list(r) for r in pixels]
        turned = {1: rows, 2: [r[::-1] for r in rows], 3: [r[::-1] for r in rows[::-1]], 4: rows[::-1],
                  5: [list(c) for c in zip(*rows)], 6: [list(c)[::-1] for c in zip(*rows)],
                  7: [list(c)[::-1] for c in zip(*rows)][::-1], 8: [list(c) for c in zip(*rows)][::-1]}
        return turned[orientation]

    def exif(self, orientation, little=True):
        order = "<" if little else ">"
        return (b"II*\0" if little else b"MM\0*") + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)

    def jpeg(self, orientation=None, little=True):
        if orientation is None:
            return self.JPEG
        body = b"Exif\0\0" + self.exif(orientation, little)
        return self.JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + self.JPEG[2:]

    def png(self, pixels, depth=8, colour=0, exif=None, extra=b""):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        head = struct.pack(">IIBBBBB", self.WIDTH, self.HEIGHT, depth, colour, 0, 0, 0)
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + (chunk(b"eXIf", exif) if exif else b"") +
                chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in pixels))) + chunk(b"IEND", b""))

    def folder(self, name, image, right, *settings, suffix=".jpg", others=()):
        for label in ("cat", "dog"):
            for i in range(2):
                path = self.path(f"{name}/{label}/{i}{suffix}")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(image)
        for other, content in others:
            with open(self.path(f"{name}/{other}"), "wb") as file:
                file.write(content)
        self.add(name, None, right, *settings)

    def shown(self, pixels):
        picture = ["".join("@" if v else " " for v in row).rstrip() for row in pixels]
        return Reading(IMAGES, 4, None, {"cat": 2, "dog": 2}, None, picture)

    def images(self):
        stored = self.stored()
        self.folder("images/plain", self.jpeg(), self.shown(stored))
        for o in range(1, 9):
            self.folder(f"images/turned_{o}", self.jpeg(o), self.shown(self.upright(stored, o)))
        self.folder("images/turned_motorola", self.jpeg(6, little=False), self.shown(self.upright(stored, 6)))
        self.folder("images/turned_nonsense", self.jpeg(77), self.shown(stored))
        grey = [bytes(row) for row in stored]
        self.folder("images/png", self.png(grey), self.shown(stored), suffix=".png")
        self.folder("images/png_turned", self.png(grey, exif=self.exif(8)), self.shown(self.upright(stored, 8)), suffix=".png")
        self.folder("images/png_16", self.png([b"".join(bytes([v, v]) for v in row) for row in stored], depth=16),
                    self.shown(stored), suffix=".png")
        self.folder("images/png_alpha", self.png([b"".join(bytes([v, 255]) for v in row) for row in stored], colour=4),
                    self.shown(stored), suffix=".png")
        self.folder("images/upper_case", self.jpeg(), self.shown(stored), suffix=".JPG")
        self.folder("images/hidden", self.jpeg(), self.shown(stored), others=[(".DS_Store", b"x"), ("cat/.DS_Store", b"x")])
        self.folder("images/thumbs", self.jpeg(), "may contain nothing else", others=[("cat/Thumbs.db", b"x")])
        self.folder("images/gif", b"GIF89a", "PNG or JPEG")
        self.folder("images/heic", b"\0\0\0\x18ftypheic", "may contain nothing else", suffix=".heic")
        self.folder("images/mixed_sizes", self.jpeg(), "converts them to one size", others=[("dog/z.jpg", self.jpeg(6))])
        self.folder("images/cut_off", self.jpeg()[:-20], "not a complete JPEG")

    def texts(self):
        words = " ".join(CHANCE.choice(["the", "cat", "sat", "on", "mat", "and", "saw"]) for _ in range(400))
        text = Reading("a text", None, None, None, None, None)
        self.add("text/plain.txt", words + "\n", text)
        self.add("text/readme.md", "# Cats\n\n" + words + "\n", text)
        self.add("text/packed.txt.gz", gzip.compress(words.encode()), text)
        self.add("text/umlauts.txt", words.replace("cat", "K\u00e4tzchen") + "\n", text)
        self.add("text/latin1.txt", words.replace("cat", "K\u00e4tzchen").encode("latin-1"), "UTF-8")
        self.add("text/utf16.txt", ("\ufeff" + words).encode("utf-16-le"), "UTF-16")
        ids = [CHANCE.randrange(50257) for _ in range(2000)]
        kinds = "data.kind=tokens", "data.vocabulary=50257"
        tokens = Reading("token ids", None, None, None, None, None)
        narrow, wide = struct.pack("<2000H", *ids), struct.pack("<2000I", *ids)
        self.add("tokens/train16.bin", narrow, tokens, *kinds)
        self.add("tokens/train16_unsaid.bin", narrow, "say what they are")
        self.add("tokens/train32.bin", wide, "data.token_bytes: 4", *kinds)
        self.add("tokens/train32_said.bin", wide, tokens, *kinds, "data.token_bytes=4")
        self.add("tokens/train32_unsaid.bin", wide, "say what they are")
        self.add("tokens/train64.bin", struct.pack("<2000Q", *ids), "data.token_bytes: 4", *kinds)
        self.add("tokens/train64_as_32.bin", struct.pack("<2000Q", *ids), "8 bytes", *kinds, "data.token_bytes=4")
        large = [CHANCE.randrange(100000) for _ in range(2000)]
        self.add("tokens/large32.bin", struct.pack("<2000I", *large), "data.token_bytes: 4", "data.kind=tokens",
                 "data.vocabulary=65536")
        self.add("tokens/odd.bin", narrow + b"\1", "a multiple of 2", *kinds)
        self.add("tokens/vocabulary.bin", narrow, "expected below data.vocabulary", "data.kind=tokens", "data.vocabulary=1000")
        head = struct.pack("<3I", 20240520, 1, 2000) + bytes(1012)
        self.add("tokens/llmc.bin", head + narrow, tokens, *kinds)
        self.add("tokens/llmc_llama3.bin", struct.pack("<3I", 20240801, 7, 2000) + bytes(1012) + wide, tokens, *kinds)
        self.add("tokens/llmc_short.bin", head + narrow[:-2], "tokens, but", *kinds)
        self.add("tokens/saved.npy", b"\x93NUMPY" + narrow, "NumPy", *kinds)
        self.add("tokens/database.sqlite", b"SQLite format 3\0" + bytes(2000), "say what they are")
        self.add("tokens/table.parquet", b"PAR1\x15\0" + bytes(2000), "say what they are")
        self.add("tokens/sheet.xlsx", b"PK\3\4" + bytes(2000), "say what they are")


def cases(directory):
    corpus = Corpus(directory)
    for family in (corpus.pandas, corpus.excel, corpus.r, corpus.uci, corpus.sklearn, corpus.libsvm, corpus.images, corpus.texts):
        family()
    return corpus.cases
