#!/usr/bin/env python3
"""Let programs that were linked against glibc 2.38 start on 2.36 and 2.37: tests/older-glibc.py FILE...

Debian unstable's Apptainer wants glibc 2.38 for nothing but strtol, strtoul and their like, which the headers of
2.38 rename to __isoc23_strtol and so on (sourceware.org/glibc, NEWS of 2.38). Each such import is pointed at the
tail of its own name and at the oldest version of glibc, and the demand for 2.38 becomes a second demand for the
oldest. Nothing in the file moves. A file that imports anything else of 2.38 is refused.
"""

import struct
import sys

PREFIX = "__isoc23_"
NEW, OLD = "GLIBC_2.38", "GLIBC_2.2.5"
# Types of sections, and the sizes of their entries (ELF-64, gABI and the LSB's chapter on symbol versions).
DYNSYM, VERSYM, VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFE
SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
NEED, AUX = struct.Struct("<HHIII"), struct.Struct("<IHHII")


class Elf:
    """The dynamic symbols of a program, and the versions that they ask for."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a little-endian ELF-64 file")
        self.data = data
        (first,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
        sections = [SECTION.unpack_from(data, first + SECTION.size * i) for i in range(count)]
        offset = {kind: at for _, kind, _, _, at, *_ in sections}
        self.versions, self.needs = offset[VERSYM], offset[VERNEED]
        symbols = next(section for section in sections if section[1] == DYNSYM)
        self.symbols, self.count = symbols[4], symbols[5] // SYMBOL.size
        self.strings = sections[symbols[6]][4]

    def name(self, offset):
        begin = self.strings + offset
        return self.data[begin : self.data.index(0, begin)].decode()

    def demands(self):
        """Yield name and place of each demand for a version of libc.so.6."""
        at, more = self.needs, 1
        while more:
            _, count, library, aux, more = NEED.unpack_from(self.data, at)
            place = at + aux
            for _ in range(count):
                _, _, _, name, step = AUX.unpack_from(self.data, place)
                if self.name(library) == "libc.so.6":
                    yield self.name(name), place
                place += step
            at += more

    def age(self):
        """Make the new demand an old one; return how many imports that changed."""
        places = dict(self.demands())
        if NEW not in places:
            return 0
        hash_, flags, old, name, _ = AUX.unpack_from(self.data, places[OLD])
        _, _, new, _, step = AUX.unpack_from(self.data, places[NEW])
        changed = [i for i in range(self.count) if self.version(i) == new]
        for index in changed:
            self.rename(index, old)
        AUX.pack_into(self.data, places[NEW], hash_, flags, new, name, step)
        return len(changed)

    def version(self, index):
        return struct.unpack_from("<H", self.data, self.versions + 2 * index)[0] & 0x7FFF

    def rename(self, index, version):
        at = self.symbols + SYMBOL.size * index
        offset, *rest = SYMBOL.unpack_from(self.data, at)
        name = self.name(offset)
        if not name.startswith(PREFIX):
            raise ValueError(f"{name} is of {NEW}, and no older name of it is known")
        SYMBOL.pack_into(self.data, at, offset + len(PREFIX), *rest)
        struct.pack_into("<H", self.data, self.versions + 2 * index, version)


def main():
    for path in sys.argv[1:]:
        with open(path, "r+b") as file:
            elf = Elf(bytearray(file.read()))
            try:
                changed = elf.age()
            except ValueError as error:
                sys.exit(f"{path}: {error}")
            file.seek(0)
            file.write(elf.data)
        print(f"{path}: {changed} imports of {NEW} made older")


if __name__ == "__main__":
    main()
