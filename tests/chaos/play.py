"""A round from its beginning to its account."""

import asyncio
from pathlib import Path

from tests.chaos.faults import ACTS
from tests.chaos.round import FAULT_PATIENCE_S, Account, Round, RoundFailed
from tests.chaos.schedule import Fault, Plan
from tests.chaos.stage import Stage


async def play(stage: Stage, plan: Plan, directory: Path) -> Account:
    """Play it. Raises RoundFailed where the workers do not recover."""
    async with Round(stage, plan, directory) as round:
        try:
            async with asyncio.timeout(FAULT_PATIENCE_S):
                struck = await asyncio.gather(*(_strike(round, fault) for fault in plan.faults))
        except TimeoutError as error:
            raise RoundFailed(f"a fault did not end\n{round.logs()}") from error
        await round.heal()
        account = await round.account()
        account.faults = sum(struck)
        account.missed = [f.kind for f, hit in zip(plan.faults, struck, strict=True) if not hit]
        return account


async def _strike(round: Round, fault: Fault) -> bool:
    await asyncio.sleep(fault.at_s)
    return await ACTS[fault.kind](round, fault)
