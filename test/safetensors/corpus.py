"""
Malformed files of the format safetensors, and some odd ones that are good. The example in C, its fuzz target and the
package for Python are tested with the same files.

    corpus.py write FOLDER       writes the files, but the large ones
    corpus.py replay PROGRAM     runs the program with the names of these files
"""
import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile

LARGEST = 2**53 - 1


class Sparse:
    """A file of which only the first bytes are not zeros."""

    def __init__(self, begin, size):
        self.begin, self.size = begin, size


def tensor(dtype="U8", shape=(4,), place=(0, 4), **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": place, **more}


def make_file(header, data=b"", length=None):
    """Returns a file with the header, an object or the bytes of one. length: the header's, as the file has it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def make_text(name=b"a", dtype=b'"U8"', shape=b"[4]", place=b"[0,4]"):
    """Returns the bytes of a header with one tensor, for what json does not write."""
    return b'{"%b":{"dtype":%b,"shape":%b,"data_offsets":%b}}' % (name, dtype, shape, place)


def make_places(*places):
    return {str(number): tensor("U8", [max(end - begin, 0)], [begin, end])
            for number, (begin, end) in enumerate(places)}


FOUR = b"abcd"
SIGN = "not of an object, list, text or whole number"
MEMBERS = "other members than dtype, shape and data_offsets"
SHAPE = "the shape of the tensor 'a' is no list of numbers"
PLACE = "the place of the tensor 'a' is no pair of numbers"
CONTROL = "a text has a control character"
ESCAPE = "a text has an escape of NUL, or one that JSON does not have"
UTF_8 = "a text is not in UTF-8"
NO_JSON = "it is no JSON"
TYPE = "is of the unknown type"

# Each malformed file, and a part of the example's message
MALFORMED = {
    # ---- The length ----
    "empty": (b"", "no file of at least 8 bytes"),
    "length_cut": (b"\2\0\0\0\0\0\0", "no file of at least 8 bytes"),
    "length_0": (make_file(b""), "does not begin with {"),
    "length_beyond": (make_file({}, length=3), "ends within its header"),
    "length_alone": (struct.pack("<Q", 2), "ends within its header"),
    "length_largest": (make_file({}, length=2**64 - 1), "more than 100 MB"),
    "length_overflows": (make_file({}, length=2**64 - 8), "more than 100 MB"),
    "length_negative": (make_file({}, length=1 << 63), "more than 100 MB"),
    "length_over_100_mb": (Sparse(make_file(b"{", length=100_000_001), 100_001_000), "more than 100 MB"),
    "length_100_mb_of_nul": (Sparse(make_file(b"{", length=100_000_000), 100_000_008), "byte 1 of the header"),
    "length_big_endian": (struct.pack(">Q", 2) + b"{}", "more than 100 MB"),
    "length_short": (make_file(make_text(), FOUR, length=18), NO_JSON),
    "length_within_text": (make_file(make_text(), FOUR, length=20), "a text does not end"),
    # ---- JSON ----
    "json_list": (make_file([]), "does not begin with {"),
    "json_text": (make_file("x"), "does not begin with {"),
    "json_number": (make_file(5), "does not begin with {"),
    "json_null": (make_file(b"null"), "does not begin with {"),
    "json_space_first": (make_file(b" {}"), "does not begin with {"),
    "json_bom": (make_file(b"\xef\xbb\xbf{}"), "does not begin with {"),
    "json_open": (make_file(b"{"), NO_JSON),
    "json_closed_twice": (make_file(b"{}}"), NO_JSON),
    "json_behind": (make_file(b"{} {}"), NO_JSON),
    "json_word_behind": (make_file(b"{} x"), SIGN),
    "json_nul_behind": (make_file(b"{}\0"), SIGN),
    "json_control_behind": (make_file(b"{}\x0c"), SIGN),
    "json_comma": (make_file(b'{"__metadata__":{},}'), NO_JSON),
    "json_comma_in_list": (make_file(make_text(shape=b"[4,]"), FOUR), NO_JSON),
    "json_comma_missing": (make_file(make_text(shape=b"[2 2]"), FOUR), NO_JSON),
    "json_colon_missing": (make_file(b'{"a"{}}'), NO_JSON),
    "json_value_missing": (make_file(b'{"a":}'), NO_JSON),
    "json_no_quotes": (make_file(b"{a:1}"), SIGN),
    "json_single_quotes": (make_file(b"{'a':1}"), SIGN),
    "json_comment": (make_file(b"{/**/}"), SIGN),
    "json_number_as_name": (make_file(b"{5:{}}"), NO_JSON),
    "json_list_closed_as_object": (make_file(make_text(shape=b"[4}"), FOUR), NO_JSON),
    "deep_objects": (make_file(b'{"a":' * 50000 + b"{}" + b"}" * 50000), "nested too deep"),
    "deep_lists": (make_file(make_text(shape=b"[" * 100000 + b"]" * 100000)), "nested too deep"),
    "deep_open": (make_file(b'{"a":' + b"[" * 100000), "nested too deep"),
    "deep_4": (make_file(make_text(shape=b"[[4]]"), FOUR), "nested too deep"),
    # ---- Texts ----
    "text_open": (make_file(b'{"a'), "a text does not end"),
    "text_ends_by_escape": (make_file(b'{"a\\'), ESCAPE),
    "text_nul": (make_file(make_text(b"a\0b"), FOUR), CONTROL),
    "text_newline": (make_file(make_text(b"a\nb"), FOUR), CONTROL),
    "text_escaped_nul": (make_file(make_text(b"a\\u0000b"), FOUR), ESCAPE),
    "text_escape_unknown": (make_file(make_text(b"\\x41"), FOUR), ESCAPE),
    "text_escape_no_digits": (make_file(make_text(b"\\u00zz"), FOUR), ESCAPE),
    "text_escape_cut": (make_file(make_text(b"\\u004"), FOUR), ESCAPE),
    "text_byte_alone": (make_file(make_text(b"\x80"), FOUR), UTF_8),
    "text_byte_never": (make_file(make_text(b"\xff"), FOUR), UTF_8),
    "text_latin_1": (make_file(make_text(b"\xe4b"), FOUR), UTF_8),
    "text_character_cut": (make_file(b'{"\xe2\x82'), UTF_8),
    "text_overlong": (make_file(make_text(b"\xc0\xaf"), FOUR), UTF_8),
    "text_overlong_3": (make_file(make_text(b"\xe0\x80\xaf"), FOUR), UTF_8),
    "text_overlong_4": (make_file(make_text(b"\xf0\x80\x80\xaf"), FOUR), UTF_8),
    "text_surrogate": (make_file(make_text(b"\xed\xa0\x80"), FOUR), UTF_8),
    "text_beyond_unicode": (make_file(make_text(b"\xf4\x90\x80\x80"), FOUR), UTF_8),
    "text_five_bytes": (make_file(make_text(b"\xf8\x88\x80\x80\x80"), FOUR), UTF_8),
    "text_six_bytes": (make_file(make_text(b"\xfc\x84\x80\x80\x80\x80"), FOUR), UTF_8),
    "text_escaped_surrogate": (make_file(make_text(b"\\ud800"), FOUR), NO_JSON),
    "text_escaped_surrogates_turned": (make_file(make_text(b"\\udc00\\ud800"), FOUR), NO_JSON),
    "text_escaped_surrogate_then_none": (make_file(make_text(b"\\ud800\\u0041"), FOUR), NO_JSON),
    # ---- Names ----
    "name_twice": (make_file(b'{"a":%b,"a":%b}' % (make_text()[5:-1], make_text()[5:-1]), FOUR), "'a' stands twice"),
    "name_twice_by_escape": (make_file(b'{"a":%b,"\\u0061":%b}' % (make_text()[5:-1], make_text()[5:-1]), FOUR),
                             "'a' stands twice"),
    "name_twice_empty": (make_file(b'{"":%b,"":%b}' % (make_text(place=b"[0,0]", shape=b"[0]")[5:-1],
                                                       make_text()[5:-1]), FOUR), "'' stands twice"),
    "metadata_twice": (make_file(b'{"__metadata__":{},"__metadata__":{}}'), "'__metadata__' stands twice"),
    "metadata_name_twice": (make_file(b'{"__metadata__":{"x":"1","x":"2"}}'), "'x' stands twice"),
    "member_twice": (make_file(b'{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}', FOUR), MEMBERS),
    "member_twice_for_another": (make_file(b'{"a":{"dtype":"U8","dtype":"U8","data_offsets":[0,4]}}', FOUR), MEMBERS),
    # ---- Metadata ----
    "metadata_number": (make_file({"__metadata__": 5}), "the metadata are no object"),
    "metadata_list": (make_file({"__metadata__": []}), "the metadata are no object"),
    "metadata_text": (make_file({"__metadata__": "x"}), "the metadata are no object"),
    "metadata_null": (make_file({"__metadata__": None}), SIGN),
    "metadata_of_number": (make_file({"__metadata__": {"x": 5}}), "the metadata 'x' are no text"),
    "metadata_of_null": (make_file({"__metadata__": {"x": None}}), SIGN),
    "metadata_of_object": (make_file({"__metadata__": {"x": {}}}), "the metadata 'x' are no text"),
    "metadata_of_list": (make_file({"__metadata__": {"y": "z", "x": ["y"]}}), "the metadata 'x' are no text"),
    # ---- Members ----
    "entry_number": (make_file({"a": 5}, FOUR), MEMBERS),
    "entry_text": (make_file({"a": "x"}, FOUR), MEMBERS),
    "entry_list": (make_file({"a": []}, FOUR), MEMBERS),
    "entry_null": (make_file({"a": None}, FOUR), SIGN),
    "entry_empty": (make_file({"a": {}}, FOUR), MEMBERS),
    "entry_more": (make_file({"a": tensor(more=1)}, FOUR), MEMBERS),
    "entry_no_dtype": (make_file({"a": {"shape": [4], "data_offsets": [0, 4]}}, FOUR), MEMBERS),
    "entry_no_shape": (make_file({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, FOUR), MEMBERS),
    "entry_no_place": (make_file({"a": {"dtype": "U8", "shape": [4]}}, FOUR), MEMBERS),
    "entry_other_case": (make_file({"a": {"dtype": "U8", "Shape": [4], "data_offsets": [0, 4]}}, FOUR), MEMBERS),
    # ---- Types ----
    "dtype_lower_case": (make_file({"a": tensor("u8")}, FOUR), TYPE),
    "dtype_unknown": (make_file({"a": tensor("F128")}, FOUR), TYPE),
    "dtype_longer": (make_file({"a": tensor("U8 ")}, FOUR), TYPE),
    "dtype_empty": (make_file({"a": tensor("")}, FOUR), TYPE),
    "dtype_number": (make_file({"a": tensor(8)}, FOUR), "the type of the tensor 'a' is no text"),
    "dtype_null": (make_file({"a": tensor(None)}, FOUR), SIGN),
    "dtype_list": (make_file({"a": tensor(["U8"])}, FOUR), "the type of the tensor 'a' is no text"),
    "dtype_object": (make_file({"a": tensor({})}, FOUR), "the type of the tensor 'a' is no text"),
    # ---- Shapes ----
    "shape_number": (make_file({"a": tensor(shape=4)}, FOUR), SHAPE),
    "shape_text": (make_file({"a": tensor(shape="4")}, FOUR), SHAPE),
    "shape_object": (make_file({"a": tensor(shape={})}, FOUR), SHAPE),
    "shape_null": (make_file({"a": tensor(shape=None)}, FOUR), SIGN),
    "shape_of_text": (make_file({"a": tensor(shape=["4"])}, FOUR), SHAPE),
    "shape_of_object": (make_file({"a": tensor(shape=[4, {}])}, FOUR), "nested too deep"),
    "shape_of_true": (make_file({"a": tensor(shape=[True] * 4)}, FOUR), SIGN),
    "shape_fraction": (make_file({"a": tensor(shape=[4.0])}, FOUR), SIGN),
    "shape_exponent": (make_file(make_text(shape=b"[4e0]"), FOUR), SIGN),
    "shape_negative": (make_file({"a": tensor(shape=[-4])}, FOUR), SIGN),
    "shape_negative_twice": (make_file({"a": tensor(shape=[-2, -2])}, FOUR), SIGN),
    "shape_minus": (make_file(make_text(shape=b"[-]"), FOUR), SIGN),
    "shape_minus_0": (make_file(make_text(shape=b"[-0]", place=b"[0,0]")), SIGN),
    "shape_plus": (make_file(make_text(shape=b"[+4]"), FOUR), SIGN),
    "shape_0_first": (make_file(make_text(shape=b"[04]"), FOUR), "begins with 0"),
    "shape_hexadecimal": (make_file(make_text(shape=b"[0x4]"), FOUR), SIGN),
    "shape_nan": (make_file(make_text(shape=b"[NaN]"), FOUR), SIGN),
    "shape_infinity": (make_file(make_text(shape=b"[1e999]"), FOUR), SIGN),
    "shape_larger": (make_file({"a": tensor(shape=[5])}, FOUR), "has 5 bytes by its shape, but a place of 4"),
    "shape_smaller": (make_file({"a": tensor(shape=[3])}, FOUR), "has 3 bytes by its shape, but a place of 4"),
    "shape_scalar": (make_file({"a": tensor(shape=[])}, FOUR), "has 1 bytes by its shape, but a place of 4"),
    "shape_0": (make_file({"a": tensor(shape=[4, 0])}, FOUR), "has 0 bytes by its shape, but a place of 4"),
    "shape_of_wide_type": (make_file({"a": tensor("F32")}, FOUR), "has 16 bytes by its shape, but a place of 4"),
    "shape_2_to_53": (make_file({"a": tensor(shape=[LARGEST + 1])}, FOUR), "2^53 or more"),
    "shape_2_to_53_and_1": (make_file({"a": tensor(shape=[LARGEST + 2])}, FOUR), "2^53 or more"),
    "shape_2_to_53_of_0": (make_file({"a": tensor(shape=[LARGEST + 1, 0], place=[0, 0])}), "2^53 or more"),
    "shape_2_to_64": (make_file({"a": tensor(shape=[2**64 + 4])}, FOUR), "2^53 or more"),
    "shape_many_digits": (make_file(make_text(shape=b"[" + b"9" * 5000 + b"]"), FOUR), "2^53 or more"),
    "shape_overflows": (make_file({"a": tensor(shape=[2**32, 2**32, 4])}, FOUR), "too many elements"),
    "shape_overflows_to_4": (make_file({"a": tensor(shape=[2**31 + 1, 2**33 - 2, 2])}, FOUR), "too many elements"),
    "shape_bits_overflow": (make_file({"a": tensor("F64", [2**52])}, FOUR), "too many elements"),
    "shape_bits_overflow_to_0": (make_file({"a": tensor("F64", [2**29, 2**29], [0, 0])}), "too many elements"),
    "shape_within_a_byte": (make_file({"a": tensor("F4", [3], [0, 2])}, b"ab"), "ends within a byte"),
    "shape_within_a_byte_of_6_bits": (make_file({"a": tensor("F6_E2M3", [2], [0, 2])}, b"ab"), "ends within a byte"),
    # ---- Places ----
    "place_number": (make_file({"a": tensor(place=4)}, FOUR), PLACE),
    "place_null": (make_file({"a": tensor(place=None)}, FOUR), SIGN),
    "place_empty": (make_file({"a": tensor(place=[])}, FOUR), PLACE),
    "place_of_1": (make_file({"a": tensor(place=[0])}, FOUR), PLACE),
    "place_of_3": (make_file({"a": tensor(place=[0, 4, 4])}, FOUR), PLACE),
    "place_text": (make_file({"a": tensor(place=["0", "4"])}, FOUR), PLACE),
    "place_object": (make_file({"a": tensor(place={"0": 0, "1": 4})}, FOUR), PLACE),
    "place_fraction": (make_file({"a": tensor(place=[0, 4.0])}, FOUR), SIGN),
    "place_true": (make_file({"a": tensor(shape=[1], place=[0, True])}, b"a"), SIGN),
    "place_negative": (make_file({"a": tensor(place=[-4, 0])}, FOUR), SIGN),
    "place_reversed": (make_file({"a": tensor(place=[4, 0])}, FOUR), "ends before it begins"),
    "place_reversed_empty": (make_file({"a": tensor(shape=[0], place=[4, 0])}, FOUR), "ends before it begins"),
    "place_beyond": (make_file({"a": tensor(shape=[5], place=[0, 5])}, FOUR), "ends at 5, but the file has 4 bytes"),
    "place_behind": (make_file({"a": tensor(place=[4, 8])}, FOUR), "ends at 8, but the file has 4 bytes"),
    "place_far": (make_file({"a": tensor(place=[LARGEST - 4, LARGEST])}, FOUR), "but the file has 4 bytes"),
    "place_2_to_53": (make_file({"a": tensor(place=[LARGEST - 3, LARGEST + 1])}, FOUR), "2^53 or more"),
    "place_2_to_64": (make_file({"a": tensor(place=[0, 2**64 + 4])}, FOUR), "2^53 or more"),
    "place_without_data": (make_file({"a": tensor()}), "ends at 4, but the file has 0 bytes"),
    "place_of_0_behind": (make_file({"a": tensor(shape=[0], place=[5, 5])}, FOUR), "ends at 5, but the file has 4"),
    "hole_first": (make_file(make_places((1, 5)), bytes(5)), "no tensor has the 1 bytes before the tensor '0'"),
    "hole": (make_file(make_places((0, 4), (5, 9)), bytes(9)), "no tensor has the 1 bytes before the tensor '1'"),
    "hole_turned": (make_file(make_places((6, 9), (0, 4)), bytes(9)), "the 2 bytes before the tensor '0'"),
    "hole_with_0": (make_file(make_places((0, 2), (3, 3), (4, 6)), bytes(6)), "the 1 bytes before the tensor '1'"),
    "overlap": (make_file(make_places((0, 4), (3, 7)), bytes(7)), "the tensors '0' and '1' overlap"),
    "overlap_equal": (make_file(make_places((0, 4), (0, 4)), bytes(4)), "the tensors '0' and '1' overlap"),
    "overlap_within": (make_file(make_places((0, 8), (2, 4)), bytes(8)), "the tensors '0' and '1' overlap"),
    "overlap_of_0": (make_file(make_places((0, 4), (2, 2)), bytes(4)), "the tensors '0' and '1' overlap"),
    "behind": (make_file({"a": tensor()}, b"abcde"), "no tensor has the last 1 bytes"),
    "behind_none": (make_file({}, b"x"), "no tensor has the last 1 bytes"),
    "behind_metadata": (make_file({"__metadata__": {"x": "y"}}, b"xyz"), "no tensor has the last 3 bytes"),
}

# Good files, their tensors as (name, type, shape, bytes) in the order of their places, and metadata
GOOD = {
    "none": (make_file({}), [], {}),
    "spaces": (make_file(b"{}" + b" " * 30), [], {}),
    "white": (make_file(b'{\t"a"\r\n:' + make_text()[5:], FOUR), [("a", "U8", [4], FOUR)], {}),
    "metadata": (make_file({"__metadata__": {"b": "", "": "\u00e4\"\n\U0001f600"}}), [],
                 {"b": "", "": "\u00e4\"\n\U0001f600"}),
    "names": (make_file({"": tensor(), "__METADATA__": tensor(place=[4, 8]),
                         "\u20ac\"\\/\b\x7f": tensor(place=[8, 12])}, b"abcdefghijkl"),
              [("", "U8", [4], b"abcd"), ("__METADATA__", "U8", [4], b"efgh"),
               ("\u20ac\"\\/\b\x7f", "U8", [4], b"ijkl")], {}),
    "escapes": (make_file(make_text(b"\\u0041\\ud83d\\ude00\\/"), FOUR), [("A\U0001f600/", "U8", [4], FOUR)], {}),
    "characters": (make_file(make_text("\u00e4\u20ac\ud7ff\ue000\U0010ffff".encode()), FOUR),
                   [("\u00e4\u20ac\ud7ff\ue000\U0010ffff", "U8", [4], FOUR)], {}),
    "nul_in_words": (make_file(make_text(b"\\\\u0000"), FOUR), [("\\u0000", "U8", [4], FOUR)], {}),
    "scalar": (make_file({"a": tensor("F32", [])}, FOUR), [("a", "F32", [], FOUR)], {}),
    "ones": (make_file({"a": tensor("F32", [1] * 64)}, FOUR), [("a", "F32", [1] * 64, FOUR)], {}),
    "zeros": (make_file({"a": tensor("F32", [0, LARGEST, 2], [0, 0]), "b": tensor("F64", [0], [4, 4]),
                         "c": tensor(), "d": tensor("I8", [7, 0], [0, 0])}, FOUR),
              [("a", "F32", [0, LARGEST, 2], b""), ("d", "I8", [7, 0], b""), ("c", "U8", [4], FOUR),
               ("b", "F64", [0], b"")], {}),
    "turned": (make_file({"b": tensor(place=[4, 8]), "a": tensor()}, b"abcdefgh"),
               [("a", "U8", [4], b"abcd"), ("b", "U8", [4], b"efgh")], {}),
    "askew": (make_file({"x": tensor(shape=[1], place=[0, 1]), "a": tensor("F64", [2], [1, 17]),
                         "b": tensor("F8_E4M3", [3], [17, 20]), "c": tensor("I16", [2], [20, 24])}, bytes(range(24))),
              [("x", "U8", [1], b"\0"), ("a", "F64", [2], bytes(range(1, 17))),
               ("b", "F8_E4M3", [3], bytes(range(17, 20))), ("c", "I16", [2], bytes(range(20, 24)))], {}),
    "bits": (make_file({"a": tensor("F4", [2, 3], [0, 3]), "b": tensor("F6_E3M2", [4], [3, 6])}, b"abcdef"),
             [("a", "F4", [2, 3], b"abc"), ("b", "F6_E3M2", [4], b"def")], {}),
}

# That of the guide's page
PAGE = make_file({"__metadata__": {"format": "pt"}, "embedding.weight": tensor("BF16", [64, 32], [0, 4096]),
                  "layers.0.weight": tensor("F32", [32, 32], [4096, 8192])}, bytes(range(256)) * 16 + bytes(4096))

TYPES = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16,
         "BF16": 16, "F32": 32, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F6_E2M3": 6,
         "F6_E3M2": 6, "F4": 4}


def make_random(choose):
    """Returns a file with random tensors, these as in GOOD, and its metadata."""
    tensors, data, place, header = [], b"", 0, {}
    for number in range(choose.randrange(12)):
        dtype = choose.choice(sorted(TYPES))
        shape = [choose.choice([0, 1, 1, 2, 3, 7, 40]) for _ in range(choose.randrange(4))]
        if TYPES[dtype] < 8:
            shape.append(4)
        bits = TYPES[dtype]
        for each in shape:
            bits *= each
        tensors.append((f"{choose.choice(['', 'layers.', chr(228) * 30])}{number}", dtype, shape,
                        choose.randbytes(bits // 8)))
    for name, dtype, shape, part in tensors:
        header[name] = tensor(dtype, shape, [place, place + len(part)])
        place += len(part)
        data += part
    header = dict(choose.sample(list(header.items()), len(header)))
    metadata = {f"key {number}": str(choose.random()) for number in range(choose.randrange(3))}
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header, ensure_ascii=choose.random() < 0.5, indent=choose.choice([None, 1])).encode()
    tensors.sort(key=lambda each: (header[each[0]]["data_offsets"], each[0].encode()))
    return make_file(text + b" " * choose.randrange(9), data), tensors, metadata


def write_file(path, contents):
    """Writes the bytes, or a Sparse file."""
    with open(path, "wb") as file:
        if isinstance(contents, Sparse):
            file.write(contents.begin)
            file.truncate(contents.size)
        else:
            file.write(contents)


def write_all(folder):
    """Writes the files, but those that are sparse, and returns their names."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    names = []
    for name, (contents, *_) in {**MALFORMED, **{"good_" + name: each for name, each in GOOD.items()}}.items():
        if not isinstance(contents, Sparse):
            names.append(os.path.join(folder, name))
            write_file(names[-1], contents)
    return names


def main(command, argument):
    if command == "write":
        write_all(argument)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        runner = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
        return subprocess.run([*runner, argument, *write_all(folder)], check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "replay"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
