"""Files of safetensors: round trips, places, indexes, and malformed files."""
from kit import *  # noqa: F403
import json
import random
import struct
import tempfile

from synced_mem import Memory, load_safetensors, save_safetensors

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "safetensors"))
import corpus  # noqa: E402


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


class Files(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.safetensors")

    def tearDown(self):
        super().tearDown()
        self.folder.cleanup()

    def write(self, header, data=b"", path=None):
        """Writes a file. The header is an object, or bytes."""
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        with open(path or self.path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)

    def contents(self, mem):
        return bytes(mem.reshape(-1).view("uint8").cpu()) if mem.nbytes else b""


class Loading(Files):
    def test_views_of_one_object(self):
        data = bytes(range(48))
        self.write({"a": tensor("F32", [2, 3], 0, 24), "b": tensor("I16", [4], 24, 32), "c": tensor("BF16", [], 32, 34),
                    "none": tensor("F32", [0, 7], 34, 34), "d": tensor("U8", [14], 34, 48),
                    "__metadata__": {"format": "pt", "x": "y"}}, data)
        tensors = load_safetensors(self.path)
        self.assertEqual(list(tensors), ["a", "b", "c", "none", "d"])
        self.assertEqual(tensors.metadata, {"format": "pt", "x": "y"})
        self.assertEqual({name: (mem.dtype, mem.shape) for name, mem in tensors.items()},
                         {"a": ("float32", (2, 3)), "b": ("int16", (4,)), "c": ("bfloat16", ()), "d": ("uint8", (14,)),
                          "none": ("float32", (0, 7))})
        for name, begin, end in (("a", 0, 24), ("b", 24, 32), ("c", 32, 34), ("d", 34, 48), ("none", 0, 0)):
            self.assertEqual(self.contents(tensors[name]), data[begin:end])
        self.assertEqual([tensors[name].is_view for name in "abcd"], [True] * 4)
        self.assertEqual([tensors[name].offset for name in "abcd"], [0, 24, 32, 34])
        self.assertEqual(tensors["a"].name, "a")
        del tensors["a"], tensors["c"]
        self.assertEqual(self.contents(tensors["b"]), data[24:32])

    def test_headers_of_any_length(self):
        """The bytes are aligned in memory wherever they are in the file."""
        for spaces in range(9):
            text = json.dumps({"a": tensor("F64", [2], 0, 16)}).encode() + b" " * spaces
            self.write(text, bytes(range(16)))
            mem = load_safetensors(self.path)["a"]
            self.assertEqual((self.contents(mem), mem.cpu().ptr % 8), (bytes(range(16)), 0))
            del mem

    def test_tensors_that_lie_askew(self):
        data = bytes(range(30))
        self.write({"x": tensor("U8", [1], 0, 1), "a": tensor("F64", [2], 1, 17), "b": tensor("I16", [4], 17, 25),
                    "c": tensor("F8_E4M3", [5], 25, 30)}, data)
        tensors = load_safetensors(self.path)
        self.assertEqual([tensors[name].is_view for name in "xabc"], [True, False, False, True])
        self.assertEqual([tensors[name].cpu().ptr % 8 for name in "ab"], [0, 0])
        self.assertEqual(b"".join(map(self.contents, tensors.values())), data)
        self.assertEqual(tensors["a"].name, "a")

    def test_an_object_a_tensor(self):
        data = bytes(range(32))
        self.write({"a": tensor("F32", [2, 2], 0, 16), "b": tensor("I8", [15], 16, 31),
                    "c": tensor("F4", [2, 1], 31, 32)}, data)
        tensors = load_safetensors(self.path, evictable=True)
        self.assertEqual(b"".join(map(self.contents, tensors.values())), data)
        self.assertEqual([(mem.is_view, mem.evictable) for mem in tensors.values()], [(False, True)] * 3)
        if has_gpu:
            self.assertRaises(synced_mem.InvalidStateError, tensors["a"].gpu)
            with synced_mem.hold(tensors.values()):
                self.assertTrue(tensors["a"].gpu().ptr)
        del tensors["a"]
        self.assertEqual(self.contents(tensors["b"]), data[16:31])

    def test_nothing_is_read_before_an_access(self):
        self.write({"a": tensor("F32", [4], 0, 16), "b": tensor("I8", [5], 16, 21)}, bytes(range(21)))
        for evictable in (False, True):
            before = synced_mem.stats()["file_read_bytes"]
            tensors = load_safetensors(self.path, evictable=evictable)
            self.assertEqual([(mem.in_file, mem.head) for mem in tensors.values()], [(True, "UNINITIALIZED")] * 2)
            self.assertEqual(synced_mem.stats()["file_read_bytes"], before)
            tensors["b"].cpu()
            self.assertEqual(synced_mem.stats()["file_read_bytes"], before + 5)
            self.assertEqual((tensors["a"].head, tensors["b"].head), ("UNINITIALIZED", "AT_CPU"))
            tensors["b"].cpu("mutable")
            self.assertEqual([mem.in_file for mem in tensors.values()], [True, False])
            del tensors

    def test_a_file_that_becomes_shorter(self):
        self.write({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 4, 8)}, b"abcdefgh")
        for evictable in (False, True):
            tensors = load_safetensors(self.path, evictable=evictable)
            os.truncate(self.path, os.path.getsize(self.path) - 1)
            self.assertRaises(synced_mem.FileError, tensors["b"].cpu)
            self.assertEqual(self.contents(tensors["a"]), b"abcd")
            with open(self.path, "ab") as file:
                file.write(b"h")
            self.assertEqual(self.contents(tensors["b"]), b"efgh")
            del tensors

    def check_tensors(self, tensors, expected, metadata):
        from synced_mem._safetensors import NAMES
        self.assertEqual(tensors.metadata, metadata)
        self.assertEqual([(name, mem.dtype, mem.shape, self.contents(mem)) for name, mem in tensors.items()],
                         [(name, NAMES[dtype], tuple(shape), contents) for name, dtype, shape, contents in expected])

    def test_good_files(self):
        for name, (contents, expected, metadata) in corpus.GOOD.items():
            corpus.write_file(self.path, contents)
            for evictable in (False, True):
                with self.subTest(name, evictable=evictable):
                    self.check_tensors(load_safetensors(self.path, evictable=evictable), expected, metadata)

    def test_random_files(self):
        for seed in range(100):
            contents, expected, metadata = corpus.make_random(random.Random(seed))
            corpus.write_file(self.path, contents)
            tensors = load_safetensors(self.path, evictable=seed % 2 == 0)
            with self.subTest(seed):
                if has_gpu:
                    synced_mem.push(tensors.values())
                    self.assertEqual([name for name, mem in tensors.items() if mem.nbytes and mem.head != "AT_GPU"], [])
                if seed % 2 == 0:
                    self.assertFalse(any(mem.is_view for mem in tensors.values()))
                self.check_tensors(tensors, expected, metadata)
            del tensors

    def test_no_tensor(self):
        for header in ({}, {"__metadata__": {}}):
            self.write(header)
            self.assertEqual(load_safetensors(self.path), {})

    @unittest.skipUnless(numpy, "no NumPy")
    def test_the_device(self):
        self.write({"a": tensor("I32", [4], 0, 16)}, numpy.arange(4, dtype="int32").tobytes())
        mem = load_safetensors(self.path)["a"]
        if has_gpu:
            mem.gpu("mutable")
            self.assertEqual((mem.head, mem.cpu_source), ("AT_GPU", "none"))  # without a host copy
        self.assertEqual(numpy.asarray(mem.cpu()).tolist(), [0, 1, 2, 3])

    def test_paths(self):
        self.write({})
        for path in (self.path, os.fsencode(self.path)):
            self.assertEqual(load_safetensors(path), {})
        self.assertRaises(FileNotFoundError, load_safetensors, self.path + "x")
        self.assertRaises(IsADirectoryError, load_safetensors, self.folder.name)
        self.assertRaises(TypeError, load_safetensors, 5.0)


class Indexes(Files):
    def setUp(self):
        super().setUp()
        self.index = os.path.join(self.folder.name, "model.safetensors.index.json")
        for number in (1, 2):
            header = {f"a{number}": tensor("U8", [4], 0, 4), f"b{number}": tensor("U8", [2], 4, 6)}
            self.write(header, bytes([number] * 6), os.path.join(self.folder.name, f"{number}.safetensors"))

    def write_index(self, places, text=None):
        with open(self.index, "w", encoding="utf-8") as file:
            file.write(text if text is not None else json.dumps({"metadata": {"total_size": 12}, "weight_map": places}))

    places = {"a1": "1.safetensors", "b1": "1.safetensors", "a2": "2.safetensors", "b2": "2.safetensors"}

    def test_an_object_a_file(self):
        self.write_index(self.places)
        tensors = load_safetensors(self.index)
        self.assertEqual(set(tensors), set(self.places))
        self.assertEqual(objects(), 6)
        self.assertEqual(self.contents(tensors["b2"]), b"\2\2")

    def test_what_is_refused(self):
        wrong = [{**self.places, "c": "1.safetensors"}, {**self.places, "a1": "2.safetensors"},
                 {name: self.places[name] for name in ("a1", "a2", "b2")}]
        for file in ("../1.safetensors", "/etc/passwd", "", ".", "..", "a\0b", 5, None, ["1.safetensors"]):
            wrong.append({**self.places, "c": file})
        for places in wrong + [[], None, 5]:
            self.write_index(places)
            with self.assertRaises(ValueError, msg=str(places)):
                load_safetensors(self.index)
        for text in ("", "{", "[]", "5", "{}", '{"weight_map": {"a": "1", "a": "1"}}', "[" * 100000,
                     '{"weight_map": NaN}'):
            self.write_index(None, text)
            with self.assertRaises(ValueError, msg=text[:50]):
                load_safetensors(self.index)
        self.write_index({**self.places, "c": "3.safetensors"})
        self.assertRaises(FileNotFoundError, load_safetensors, self.index)
        self.write({"a1": tensor("U8", [0], 0, 0)}, b"", os.path.join(self.folder.name, "2.safetensors"))
        self.write_index(self.places)
        self.assertRaisesRegex(ValueError, "another file", load_safetensors, self.index)


class Malformed(Files):
    def test_corpus(self):
        for name, (contents, why) in corpus.MALFORMED.items():
            corpus.write_file(self.path, contents)
            with self.subTest(name), self.assertRaises(ValueError, msg=why) as caught:
                load_safetensors(self.path)
            self.assertIn(self.path, str(caught.exception))

    def test_random_bytes(self):
        """Changed bytes of a good file: a ValueError, or tensors that lie in the file."""
        text = json.dumps({"a": tensor("F32", [2, 3], 0, 24), "b": tensor("U8", [6], 24, 30),
                           "__metadata__": {"x": "y"}})
        for seed in range(400):
            choose = random.Random(seed)
            whole = bytearray(struct.pack("<Q", len(text)) + text.encode() + bytes(30))
            for _ in range(choose.randrange(1, 4)):
                place = choose.randrange(8 + len(text))
                whole[place] = choose.choice(b'0123456789{}[],:"- \0\xff' + bytes([choose.randrange(256)]))
            with open(self.path, "wb") as file:
                file.write(whole[:choose.choice([len(whole), choose.randrange(len(whole))])])
            try:
                tensors = load_safetensors(self.path)
            except ValueError:
                continue
            self.assertLessEqual(sum(mem.nbytes for mem in tensors.values()), 30)
            del tensors

    def test_a_failure_leaves_nothing(self):
        for _ in range(50):
            self.write({"a": tensor("U8", [4], 0, 4)}, b"abc")
            self.assertRaises(ValueError, load_safetensors, self.path)
        self.assertEqual(objects(), 0)


class Saving(Files):
    def test_evictable_tensors(self):
        """Those of a budget of host copies, too."""
        tensors = {"a": Memory((2, 3), "float32", evictable=True), "b": Memory(5, "uint8")}
        memoryview(tensors["a"].view("uint8").cpu("overwrite")).cast("B")[:] = bytes(range(24))
        self.assertEqual((tensors["a"].reshape(6).evictable, tensors["b"].evictable), (True, False))
        save_safetensors(tensors, self.path)
        synced_mem.cpu_set_budget(1 << 40)
        save_safetensors(tensors, self.path)
        self.assertEqual(synced_mem.cpu_set_budget(None), 0)
        self.assertEqual(self.contents(load_safetensors(self.path)["a"]), bytes(range(24)))

    def test_round_trip(self):
        choose = random.Random(1)
        tensors, kept = {}, {}
        from synced_mem._safetensors import NAMES
        for number, (type_, bits) in enumerate(corpus.TYPES.items()):
            shape = (choose.randrange(4) * 4, 2) if number % 5 else ()
            if bits % 8 and not shape:
                shape = (4,)
            mem = Memory(shape, NAMES[type_])
            kept[type_] = bytes(choose.randrange(256) for _ in range(mem.nbytes))
            if mem.nbytes:
                memoryview(mem.part(0, mem.nbytes, "uint8").cpu("overwrite"))[:] = kept[type_]
            tensors[type_] = mem
        tensors["\u00e4 \" name"] = Memory(3, "uint8")
        kept["\u00e4 \" name"] = b"\0\0\0"
        save_safetensors(tensors, self.path, {"a": "b"})
        loaded = load_safetensors(self.path)
        self.assertEqual(loaded.metadata, {"a": "b"})
        self.assertEqual({name: (mem.dtype, mem.shape, self.contents(mem)) for name, mem in loaded.items()},
                         {name: (mem.dtype, mem.shape, kept[name]) for name, mem in tensors.items()})
        self.assertEqual(os.listdir(self.folder.name), ["model.safetensors"])
        with open(self.path, "rb") as file:
            self.assertEqual(int.from_bytes(file.read(8), "little") % 8, 0)
        for mem in loaded.values():
            self.assertTrue(mem.is_view)  # none lies askew
        del mem

    def test_views_and_places(self):
        mem = Memory((4, 4), "int32")
        memoryview(mem.cpu("mutable"))[2, 1] = 5
        save_safetensors({"whole": mem, "part": mem[2]}, self.path)
        loaded = load_safetensors(self.path)
        self.assertEqual(memoryview(loaded["part"].cpu()).tolist(), [0, 5, 0, 0])

    def test_what_is_refused(self):
        with open(self.path, "wb") as file:
            file.write(b"before")
        for tensors, metadata in (({"a": Memory(1, "complex128")}, None), ({"__metadata__": Memory(1)}, None),
                                  ({5: Memory(1)}, None), ({"a": Memory(3, "float4_e2m1fn")}, None),
                                  ({"a": Memory(1)}, {"a": 5}), ({"a": Memory(1)}, {5: 5})):
            self.assertRaises(ValueError, save_safetensors, tensors, self.path, metadata)
        self.assertRaises(OSError, save_safetensors, {"a": Memory(1)}, self.folder.name)
        if can_share:
            shared = Memory(4, shareable=True)
            shared.end_turn()
            self.assertRaises(synced_mem.InvalidStateError, save_safetensors, {"a": shared}, self.path)
        self.assertRaises(OSError, save_safetensors, {}, os.path.join(self.path, "x"))
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), b"before")
        self.assertEqual(os.listdir(self.folder.name), ["model.safetensors"])


main()
