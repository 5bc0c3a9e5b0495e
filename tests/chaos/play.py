"""Plays a round: its faults, and then the comparison."""

import asyncio
from pathlib import Path

from tests.chaos.faults import ACTS
from tests.chaos.round import FAULT_PATIENCE_S, Round, RoundFailed, RoundResult
from tests.chaos.schedule import Fault, Plan
from tests.chaos.stage import Stage


async def play(stage: Stage, plan: Plan, directory: Path) -> RoundResult:
    """Play a round. Raises RoundFailed if the workers do not recover."""
    async with Round(stage, plan, directory) as round:
        try:
            async with asyncio.timeout(FAULT_PATIENCE_S):
                struck = await asyncio.gather(*(_strike(round, fault) for fault in plan.faults))
        except TimeoutError as error:
            raise RoundFailed(f"a fault did not end\n{round.logs()}") from error
        await round.heal()
        result = await round.finish()
        result.faults = sum(struck)
        result.missed = [f.kind for f, hit in zip(plan.faults, struck, strict=True) if not hit]
        return result


async def _strike(round: Round, fault: Fault) -> bool:
    await asyncio.sleep(fault.at_s)
    return await ACTS[fault.kind](round, fault)
