"""Interpreter-bound programs: loops over numbers, lists and strings."""

from torch import nn


class Integers(nn.Module):
    """The longest Collatz sequence."""

    def forward(self, limit: int) -> int:
        longest = 0
        for start in range(1, limit):
            value, steps = start, 0
            while value != 1:
                value = value // 2 if value % 2 == 0 else 3 * value + 1
                steps += 1
            longest = max(longest, steps)
        return longest


class Floats(nn.Module):
    """The points of a line whose iterated squares stay bounded."""

    def forward(self, points: int) -> float:
        total = 0.0
        for point in range(points):
            constant = -2.0 + 2.25 * point / points
            value = 0.0
            for _ in range(50):
                if abs(value) > 2.0:
                    break
                value = value * value + constant
            total += value
        return total


class Lists(nn.Module):
    """The prime numbers below a limit, by sieving."""

    def forward(self, limit: int) -> list[int]:
        is_prime = [True] * limit
        for number in range(2, limit):
            if is_prime[number]:
                multiple = number * number
                while multiple < limit:
                    is_prime[multiple] = False
                    multiple += number
        found: list[int] = []
        for number in range(2, limit):
            if is_prime[number]:
                found.append(number)
        return found


class Strings(nn.Module):
    """Word counts, as text."""

    def forward(self, text: str) -> str:
        counts: dict[str, int] = {}
        for word in text.split(" "):
            name = word.strip().lower()
            if len(name) > 0:
                counts[name] = counts.get(name, 0) + 1
        lines: list[str] = []
        for name, count in counts.items():
            lines.append(f"{name}={count}" + ("!" if name.startswith("q") else ""))
        return ";".join(lines)


class Characters(nn.Module):
    """A Caesar cipher."""

    def forward(self, text: str) -> str:
        result = ""
        for letter in text:
            place = ord(letter)
            if place >= 97 and place < 123:
                place = (place - 97 + 3) % 26 + 97
            result += chr(place)
        return result
