"""The part of YAML that deployments use, for hosts without a YAML library: maps and lists by indentation or in braces,
quoted and plain scalars, documents. Anything else is an error. Numbers stay texts."""

import re


class Broken(Exception):
    pass


def strip_comment(line):
    quoted = None
    for at, letter in enumerate(line):
        if quoted:
            quoted = None if letter == quoted else quoted
        elif letter in "\"'" and (at == 0 or line[at - 1] in " [{,:"):
            quoted = letter
        elif letter == "#" and (at == 0 or line[at - 1] == " "):
            return line[:at].rstrip()
    return line.rstrip()


class Flow:
    """Values in braces, such as [a, {b: c}], from a position on."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def skip(self):
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1

    def take(self, letter):
        self.skip()
        if self.text[self.at:self.at + 1] != letter:
            return False
        self.at += 1
        return True

    def value(self, ends=",]}"):
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.value())
                if not self.take(",") and self.text[self.at:self.at + 1] != "]":
                    raise Broken(f"expected , or ] in {self.text!r}")
            return items
        if self.take("{"):
            entries = {}
            while not self.take("}"):
                key = self.value(ends=":")
                if not self.take(":") or key in entries:
                    raise Broken(f"expected another key and : in {self.text!r}")
                entries[key] = self.value()
                if not self.take(",") and self.text[self.at:self.at + 1] != "}":
                    raise Broken(f"expected , or }} in {self.text!r}")
            return entries
        quoted = re.compile(r' *"([^"\\]*)"| *\'([^\']*)\'').match(self.text, self.at)
        if quoted:
            self.at = quoted.end()
            return quoted[1] if quoted[1] is not None else quoted[2]
        plain = re.compile(f"[^{re.escape(ends)}]*").match(self.text, self.at)
        if not plain[0].strip():
            raise Broken(f"expected a value in {self.text!r}")
        self.at = plain.end()
        return plain[0].strip()


def scalar(text):
    if text[0] in "[{\"'":
        flow = Flow(text)
        value = flow.value()
        flow.skip()
        if flow.at != len(text):
            raise Broken(f"expected nothing behind {text[:flow.at]!r}: {text!r}")
        return value
    if text[0] in "&*!|>%@`" or ": " in text:
        raise Broken(f"expected a plain value: {text!r}")
    return text


KEY = re.compile(r"([^\s\"'\[{#:-][^\s:]*|-[^\s:]+):(?: +(.*))?$")


def block(lines, indent):
    """The first lines (indentation, text) that are indented alike; removes them from the list."""
    if lines[0][1].startswith("- ") or lines[0][1] == "-":
        items = []
        while lines and lines[0][0] == indent and lines[0][1].startswith("-"):
            inner = lines[0][1][1:].lstrip()
            if not inner:
                lines.pop(0)
                items.append(block(lines, lines[0][0]))
            elif KEY.match(inner):
                lines[0] = (indent + len(lines[0][1]) - len(inner), inner)
                items.append(block(lines, lines[0][0]))
            else:
                lines.pop(0)
                items.append(scalar(inner))
        return items
    entries = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        match = KEY.match(lines[0][1])
        if not match or match[1] in entries:
            raise Broken(f"expected another key: {lines[0][1]!r}")
        lines.pop(0)
        if match[2]:
            entries[match[1]] = scalar(match[2])
        elif lines and (lines[0][0] > indent or (lines[0][0] == indent and lines[0][1].startswith("- "))):
            entries[match[1]] = block(lines, lines[0][0])
        else:
            entries[match[1]] = None
    return entries


def documents(text):
    found = []
    for part in re.split(r"^---$", text, flags=re.M):
        lines = [(len(line) - len(line.lstrip(" ")), line.lstrip(" ")) for line in map(strip_comment, part.split("\n"))
                 if line.strip(" ")]
        if "\t" in part:
            raise Broken("found a tab")
        if lines:
            found.append(block(lines, lines[0][0]))
            if lines:
                raise Broken(f"indented by {lines[0][0]}, which nothing above is: {lines[0][1]!r}")
    return found
