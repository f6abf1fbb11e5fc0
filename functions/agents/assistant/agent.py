"""The example agent: deterministic, in English and Chinese, one skill for each thing an agent can do."""

from collections.abc import AsyncIterator, Callable
from decimal import Decimal, localcontext
from typing import Annotated

from pydantic import BeforeValidator

from a2a_lambda import Ask, Command, Turn, route, skill

from . import language
from .language import Sport, is_chinese

Skill = Callable[..., object]

LARGEST = 10_000
"""Maximum digits before or after the point of a number that it adds."""

ADVICE: dict[Sport, tuple[str, ...]] = {
    "basketball": (
        "Basketball, then. ",
        "Dribble low, with your fingertips and your eyes up. ",
        "Shoot from the legs and follow through with the wrist. ",
        "On defense, move your feet before your hands.",
    ),
    "football": (
        "Football, then. ",
        "Take the first touch into space, away from the defender. ",
        "Pass with the inside of the foot and look up before the ball comes. ",
        "Without the ball, keep moving: that is most of the game.",
    ),
}
ADVICE_ZH: dict[Sport, tuple[str, ...]] = {
    "basketball": (
        "来学篮球。",
        "运球压低，用指尖，眼睛看前方。",
        "投篮从腿部发力，手腕跟随。",
        "防守先移动脚步，再出手。",
    ),
    "football": (
        "来学足球。",
        "第一脚触球要避开防守人。",
        "用脚内侧传球，接球前先观察。",
        "无球时不停跑动。",
    ),
}


@route
def by_words(turn: Turn) -> Skill | None:
    if language.ADDS.search(turn.text):
        return ai_calculate
    if language.COUNTS.search(turn.text):
        return ai_count
    if language.FLASHES.search(turn.text):
        return ai_flash
    if language.COACHES.search(turn.text):
        return ai_coach
    return None


@skill(default=True)
def ai_repeat(turn: Turn) -> str:
    hear(turn)
    return turn.text


@skill
def ai_calculate(
    turn: Turn,
    num1: Annotated[Decimal | None, BeforeValidator(language.number), "The first number"] = None,
    num2: Annotated[Decimal | None, BeforeValidator(language.number), "The second number"] = None,
) -> object:
    if turn.answering and not language.numbers(turn.text) and (other := elsewhere(turn, ai_calculate)):
        return other(turn)
    hear(turn)
    terms = [number for number in (num1, num2) if number is not None]
    if len(terms) < 2:
        numbers = language.numbers(turn.text)
        for number in terms if len(numbers) > 1 or not turn.answering else ():
            if number in numbers:  # the slot's number, as the text has it
                numbers.remove(number)
        terms += numbers
    if any(map(is_too_large, terms)):
        return Ask(
            "这个数太大了，换一个吧。" if is_chinese(turn.text) else "That is too large for me. Another number?"
        )
    if not terms:
        return Ask("请问是哪两个数？" if is_chinese(turn.text) else "Which two numbers should I add?")
    if len(terms) == 1:
        number_text = plain(terms[0])
        question = f"{number_text} 加多少？" if is_chinese(turn.text) else f"What should I add to {number_text}?"
        return Ask(question, known={"num1": number_text})
    with localcontext(prec=3 * LARGEST):
        total = sum(terms, Decimal(0))
    if is_chinese(turn.text):
        return f"{' 加 '.join(map(plain, terms))} 等于 {plain(total)}。"
    return f"{' plus '.join(map(plain, terms))} is {plain(total)}."


@skill
def ai_count(turn: Turn) -> str:
    count = hear(turn)
    if is_chinese(turn.text):
        return f"算上这一句，您一共说了 {count} 句话。"
    return f"You have said {count} sentence{'s' if count != 1 else ''}, this one included."


@skill
def ai_flash(turn: Turn) -> tuple[str, Command]:
    hear(turn)
    return ("闪一下！" if is_chinese(turn.text) else "Flash!"), Command("flash")


@skill
def ai_coach(
    turn: Turn,
    sport: Annotated[
        Sport | None, BeforeValidator(language.sport), "The sport: basketball or football"
    ] = None,
) -> object:
    sport = sport or language.sport(turn.text)
    if sport is None and turn.answering and (other := elsewhere(turn, ai_coach)):
        return other(turn)
    hear(turn)
    if sport is None:
        if is_chinese(turn.text):
            return Ask("想学篮球还是足球？", choices=["篮球", "足球"])
        return Ask("Which sport should I coach: basketball or football?", choices=["basketball", "football"])
    return advise(ADVICE_ZH[sport] if is_chinese(turn.text) else ADVICE[sport])


async def advise(pieces: tuple[str, ...]) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece


def elsewhere(turn: Turn, asking: Skill) -> Skill | None:
    """The skill the words are for, where they are not for the one that asked. None, too, if that skill would
    ask, because the next message answers the one that asked first."""
    numbers = language.numbers(turn.text)
    other = by_words(turn)
    if other is ai_calculate and (len(numbers) < 2 or any(map(is_too_large, numbers))):
        return None
    if other is ai_coach and language.sport(turn.text) is None:
        return None
    return None if other is asking else other


def is_too_large(number: Decimal) -> bool:
    """Whether a number has so many digits that adding it would take long."""
    return abs(number.adjusted()) + len(number.as_tuple().digits) > LARGEST


def hear(turn: Turn) -> int | float:
    """Count the sentences of this message; returns how many the user has said in this context."""
    return turn.memory.add("sentences", language.sentences(turn.text))


def plain(number: Decimal) -> str:
    """Digits without an exponent or zeros at the end."""
    text = f"{number or Decimal(0):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
