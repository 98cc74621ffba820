"""How often the warnings about closed connections are logged."""

from __future__ import annotations

from klamm.world.real.listeners import ConnectionWarnings


def test_the_intervals_of_a_repeated_warning_double_up_to_a_minute() -> None:
    warnings = ConnectionWarnings()
    tries = {at_s: warnings.to_log("no TLS", at_s) for at_s in range(1000, 1310)}
    logged = {at_s - 1000: text for at_s, text in tries.items() if text}
    assert list(logged) == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]
    assert list(logged.values())[:3] == ["no TLS", "no TLS", "no TLS (and 1 more)"]
    assert logged[303] == "no TLS (and 59 more)"
    assert warnings.to_log("no TLS", 1500) == "no TLS (and 6 more)"
    assert warnings.to_log("no TLS", 1501) == "no TLS", "it was not repeated for a minute"


def test_another_warning_waits_for_a_second_only() -> None:
    warnings = ConnectionWarnings()
    for at_s in range(1000, 1010):
        warnings.to_log("no TLS", at_s)
    assert warnings.to_log("no user", 1010) == "no user"
    assert warnings.to_log("no password", 1010.5) is None
    assert warnings.to_log("no password", 1011.0) == "no password (and 1 more)"


def test_texts_that_are_always_new_take_no_memory() -> None:
    warnings = ConnectionWarnings()
    texts = [warnings.to_log(str(number), number / 100) for number in range(1000)]
    assert len([text for text in texts if text]) == 10
    assert len(warnings._by_text) <= 100
