"""The budget suite: every line of budgets.yaml on every wiring, and what must hold beside it."""

from firstsound.plugin import BudgetLine, Guard


def test_budget(budget_line: BudgetLine) -> None:
    budget_line.check()


def test_guard(guard: Guard) -> None:
    guard.check()
