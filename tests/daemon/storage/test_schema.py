"""The stored bytes stay what they are under one version of the schema.

A test here fails where the encoding changes: then give `SCHEMA_VERSION` a new number, so that no
process reads the bytes of another encoding, and renew the bytes below (`python -m
tests.daemon.storage.test_schema` prints them). Frames are compared uncompressed, because libraries
of another version may compress otherwise.
"""

import sys
from typing import Any, Final

import numpy as np

from relevanced.daemon.config import load
from relevanced.daemon.events import Impression
from relevanced.daemon.experiments import DAY_MS, Arm, Experiments, Spec, Tracking
from relevanced.daemon.plan import Plan, Surfaces
from relevanced.daemon.storage import (
    SCHEMA_VERSION,
    Block,
    ClaimedLane,
    LogMark,
    consumer_group,
    encode,
    experiments,
    namespace,
    pack_integers,
    plan_commit,
)
from relevanced.daemon.timing import timing
from relevanced.metrics import Propensities, parse
from tests.builders import (
    BASE_MS,
    SETTLE_MS,
    START_MS,
    TOPIC,
    claimed,
    clicked,
    commit,
    judged,
    passing,
    settled,
    shown,
)
from tests.fakes import MemoryLane

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME: Final = bytes.fromhex("28b52ffd")
"""What every compressed value begins with."""
METRICS: Final = ("P@2", "IPS-P@2", "FirstFeedbackSeconds")
SPECS: Final = {
    "ranker": Spec("ranker", "control", 1_000, METRICS),
    "colour": Spec("colour", "control", 1_000, METRICS, unit="impression"),
}
SMALL: Final = Plan(
    timing=timing([("5m", 300), ("1h", 3600)], attribution_s=60, lateness_s=5),
    metrics=tuple(parse(name) for name in METRICS),
    groupings=(("country",),),
    grades={"click": 1.0, "purchase": 2.0},
    max_segments=1,
    depth=5,
    history_hours=1,
    hour_ms=300_000,
    surfaces=Surfaces("device", (Propensities("web", "1", (1.0, 0.5)),), "web"),
    tracking=Tracking(SPECS, 0, Spec("", "control", 1_000, METRICS, declared=False)),
)

STORED: Final = {
    "blobs admitted": (
        "28b52ffd201ef1000081a66576656e74739182a25553ce00e444b8a6286e6f6e6529ce00e444b8"
    ),
    "blobs experiment:5855bf8d7fa06b27": (
        "28b52ffd607113750400a2071a259029e9804ee82fcf41d8a03f6c7547d8c2a3fcaf042624ccf67ce4a26dd6"
        "bc036bf5bb4c01eea334bd7ee45ef3849f3ce433bff9d852141c36ee6acc70c081f3ca97dfbd431feeeec1bd"
        "2fb0dc9eb568b95893381847697afd2813e1140c4e02624bf1248b3c02111000061b45c73e9e84f7543c09ef"
        "144fc27b0a4fc293f0243c094fc293f024dc4965"
    ),
    "blobs experiment:5855bf8d7fa06b27:users:1": (
        "28b52ffd201ff9000092a672616e6b65729193a974726561746d656e74a0c408c1eaf9e49bab23f5"
    ),
    "blobs experiment:5fb77f064e15d15d": (
        "28b52ffd605713fd030022461622a019d2019f65cfb93c7e28443ababfb0a108edf04f43338dabd9aa058f9d"
        "96ec9529eb236c58ffaddd2e721f9cd90d38f062cb98d9bdb715f735e1de7fc1e594cad1c85391408eb061fd"
        "c748185001810e4d3d32e5a14c02111000061b05c73e9e84f7543c09ef144fc27b0a4fc293f0243c094fc293"
        "f024dc4965"
    ),
    "blobs experiment:5fb77f064e15d15d:users:3": (
        "28b52ffd201de9000092a6636f6c6f75729193a7636f6e74726f6ca0c408037760a0de7e0430"
    ),
    "blobs hours:1795176000000:0": (
        "28b52ffd600025e5030004030101000202040401012020909001015050a8a80101010110101010a1a100d0d0"
        "00c3c3006161002727000707000303001c007a0afa21204d2fa8d0214840401a7a401d02d2d0201d02d2f402"
        "150c487840c20ed22890c0808407243c20e101090f487840c203121e90f0808407127660a42848d021484012"
        "1802"
    ),
    "blobs layouts": (
        "28b52ffd601100bd0500a409939191a7636f756e747279919800a0a093bb502872656c3d312c76617269616e"
        "743d7374616e64617264294032b74950532d2940327e3065396132653036b44669727374466565646261636b"
        "5365636f6e6473aa4032c00182ce000493e0cd2710ce0036ee80ce0001d4c084a7636f6c756d6e7384c0c0c0"
        "a967726f7570696e677382a3616c6cc0c0a777696e646f7773c0c0a5686f757273c0090017132263e3601bb1"
        "797087c7c7ee0045ecc09e82224f46a6a0"
    ),
    "blobs open:3": (
        "28b52ffd606e01550b00f612483b50a5560768b8959f1535bf2059cbefe616dc0b31633b41d4b05c211674fa"
        "dfca20bb8903e5b9d10916192e306639d6c9f456bdf4900a455a2329053600340038004eb9e51575b9bb3b0c"
        "c3b02ccb92244992524a270dd3342f1b485234af5735d3e336cc6665964eb3aa57e978142e5f8e4450cf3b71"
        "81cf0cf1897c49f9f41fa07cf837d27ffd5ff41b3c2fc4dffc2f49080bf352af5e51a7f08a7a8653ae71ca31"
        "bca27e71ca2fca2d01dcc5f9070feef78de31532881349ff38565b2b2eb84dc45c58760190543a1e908983ff"
        "0ba28ffa1d285986cd3ca037603ff875c4d0bc6007f38e1be8c188078f900f02022434031d920a028d0409f7"
        "824dd8da65c48dc3baae5a0b0d0bf0de5635cfaad6ebd88ad92ccbf98cb3dec65da2cd70591d00390db89763"
        "168409095933ea261f43625643680858a4190161ab2a16264996c28092ee0adbe62a00a21c659ae5123034a3"
        "8602bad010774e0576356fe5fa413606610e4117"
    ),
    "blobs rows:300:1795176000000:0": (
        "28b52ffd600025e5030004030101000202040401012020909001015050a8a80101010110101010a1a100d0d0"
        "00c3c3006161002727000707000303001c007a0afa21204d2fa8d0214840401a7a401d02d2d0201d02d2f402"
        "150c487840c20ed22890c0808407243c20e101090f487840c203121e90f0808407127660a42848d021484012"
        "1802"
    ),
    "blobs rows:300:1795176090000:0": (
        "28b52ffd6000251d050084040401030002010100040301000a05050024190b00604020d04090010340f05090"
        "e8a809030603024030106050e342a11242d00d49c3d06e619c7527eac327160f07130f030302030320003c09"
        "7ac0418a0724ac211d225cd2ec01157048878a461a1ea0c00e5043401a1ad221e2254d6fae820d216119419a"
        "820436341236270501693a4c4840401a02d21090f0803404d274704920402201120990480629890488"
    ),
    "blobs rows:3600:1795176000000:0": (
        "28b52ffd60002555050084040502030003020100050401000c070500281d0b0080602060d090020390405038"
        "90a80a04060403504010706084e3a1e312d0d00dc332d061c39c2711ea271e16071613030303040322007f07"
        "7ad8418229f000157090e201096b48870897347b40051cd2a1a291860728b003d41090868674887849d39bab"
        "604348584690a620810d8d84cd4941409a0e1312109086803404243c200d81341d5c12089048804402249241"
        "4a220122"
    ),
    "blobs totals:0": (
        "28b52ffd600025e5030004030101000202040401012020909001015050a8a80101010110101010a1a100d0d0"
        "00c3c3006161002727000707000303001c007a0afa21204d2fa8d0214840401a7a401d02d2d0201d02d2f402"
        "150c487840c20ed22890c0808407243c20e101090f487840c203121e90f0808407127660a42848d021484012"
        "1802"
    ),
    "head counts": (
        "7b226576656e7473223a7b22696d7072657373696f6e223a372c22666565646261636b223a377d2c22696d70"
        "72657373696f6e5f6f7574636f6d6573223a7b226163636570746564223a352c22657874656e646564223a31"
        "2c2266696c6c6564223a317d2c22666565646261636b5f6f7574636f6d6573223a7b226a6f696e6564223a35"
        "7d7d"
    ),
    "head keys": ("3132"),
    "head logs": (
        "7b226576656e7473223a5b226447397761574d67615751674d545967596e6c305a51222c382c333432313738"
        "303236322c22222c355d7d"
    ),
    "head names": ("32"),
    "head offsets": ("7b226576656e7473223a307d"),
    "head sequence": ("33"),
    "head start": ("7b226576656e7473223a307d"),
    "head state": (
        "28b52ffd205ce102009a0502cf000001a1f8d45f300391970301050002cf000001a1f8d6959a069294a6636f"
        "6c6f7572a83466363166333862c00094a672616e6b6572a86632343032636161c000cf000001a1f8d3ea0081"
        "a66576656e74739380000d9000"
    ),
    "head token": ("7431"),
    "head watermarks": ("7b226576656e7473223a313739353137363039353030397d"),
    "names 1": ("5b312c225553225d"),
    "names 2": ("5b312c22286e6f6e6529225d"),
    "block of changes": (
        "28b52ffd20ea450400c2861720b0271dc082129d608e31d16592de306974c35be7802a0bc07a6138e4261ba7"
        "144dc971b0c113fe4c001df584e53c8b928c36ac67cb0a2fc8a12f27ac8c503e58d9e04570fd59a6633d0b0d"
        "703e4aebc987d2f806f979cc11351d2f6123100004d3a8b7303362e82478a9828112741ad659699a7300607d"
        "94216074cb69c06aaeb8074002"
    ),
    "day of an experiment": (
        "28b52ffd6081159d0400f2451623a0298d01b31bcb4d0ac7d832a1cb418cfeb76d17dc6d99a58deafcbf7a81"
        "edfe9d490a8b7befbdf78eeee8d3734085c295e81802e2fc7ecd8429bf01074e0bfe07cfaba563cdf0709a23"
        "05cb95c9a5c1bc2431c1543a18011300388623d020c53b40e11da0f00e50780728bc0314de010a6f90e20109"
        "0f48a53ff8c00da01b000871067f1b90da80d40e2722db0206"
    ),
}
"""What version 3 writes for the lane of `fed`, in hexadecimal digits."""


def searched(at_ms: int, items: str, of: str, **more: Any) -> Impression:
    dealt = {"ranker": "treatment", "colour": "control"}
    return shown(at_ms, items, of=of, user_id=f"user of {of}", experiments=dealt, **more)


def fed() -> tuple[MemoryLane, ClaimedLane]:
    """A store after three commits that write every kind of key, and the lane of its owner."""
    store = MemoryLane()
    lane = claimed(store, plan=SMALL)
    lane.logs = {TOPIC: LogMark("dG9waWMgaWQgMTYgYnl0ZQ", 8, 0xCBF43926, "", 5)}
    attributes = {"country": "US", "device": "web"}
    commit(
        store,
        lane,
        searched(0, "a b", "early", attributes=attributes),
        clicked(1, "a", of="early"),
    )
    late_ms = SETTLE_MS + 3 * BASE_MS
    commit(
        store,
        lane,
        searched(late_ms, "a b a", "é\\", attributes=attributes, grades={"b": 0.5}),
        shown(late_ms, "x y z", of="teams", teams=("ranker", None, "control")),
        clicked(late_ms + 1, "nowhere", of="é\\"),
        clicked(late_ms + 2, "c", of="not yet"),
        clicked(late_ms + 3, rank=1, of="é\\"),
        shown(late_ms + 3, "", of="blank"),
    )
    commit(
        store,
        lane,
        shown(late_ms + 4, "c d", of="é\\", first_rank=4),
        shown(late_ms + 5, "e", of="not yet"),
        clicked(late_ms + 6, "d", of="é\\", kind="purchase"),
        judged(late_ms + 7, "b", 1.5, of="é\\"),
        shown(late_ms + 8, "g", of="blank"),
        clicked(late_ms + 9, "g", of="blank"),
    )
    return store, lane


def stored(store: MemoryLane, lane: ClaimedLane) -> dict[str, bytes]:
    """Everything that a store keeps of a lane, and a block of changes to what earlier blocks
    brought."""
    slots, serials = lane.lane.open.next_slot, lane.lane.waiting.next_serial
    first, blank = slots - 4, slots - 2
    changes = Block(
        slots,
        slots,
        serials,
        serials,
        slots=np.array([first, blank]),
        relisted={first, blank},
        bound={0, 1},
        joined={0: START_MS + 10 * SETTLE_MS},
    )
    encoded = encode(lane.lane, changes)
    assert encoded is not None
    parts = {"head": store.fields, "names": store.names, "blobs": store.blobs}
    whole = {
        f"{part} {key}": data for part, values in parts.items() for key, data in values.items()
    }
    ((_, day),) = experiments.blobs_of(after_a_day()).items()
    parts_alone = {"block of changes": encoded[0], "day of an experiment": day}
    return dict(sorted(whole.items())) | parts_alone


def after_a_day() -> Experiments:
    """An experiment of which a day has ended, and nothing else has changed."""
    found, ranker = Experiments(), Spec("ranker", "control", 1, ("RR",))
    found.begin("ranker", "f2402caa")
    arms = {
        "control": Arm.empty(1),
        "interleaved": Arm.empty(
            1,
        ),
    }
    arms["control"].tallies[3] = 7, 6, 5, 4
    arms["interleaved"].credits[1] = 3, -1, 3
    found.by_name["ranker"].arms |= arms
    found.reach(ranker, START_MS)
    found.start_batch()
    found.reach(ranker, START_MS + DAY_MS)
    return found


def uncompressed(data: bytes) -> bytes:
    return zstd.decompress(data) if data.startswith(FRAME) else data


def test_what_is_written_stays_the_same_under_one_version() -> None:
    written = {name: uncompressed(data) for name, data in stored(*fed()).items()}
    expected = {name: uncompressed(bytes.fromhex(data)) for name, data in STORED.items()}
    assert (SCHEMA_VERSION, written) == (1, expected)


def test_a_lane_is_read_back_from_what_this_version_wrote_before() -> None:
    """Both lanes then write the same: this one, and one that was read from `STORED`."""
    store, lane = fed()
    before = MemoryLane()
    parts = {"head": before.fields, "names": before.names, "blobs": before.blobs}
    for name, data in STORED.items():
        part, _, key = name.partition(" ")
        if part in parts:
            parts[part][key] = bytes.fromhex(data)
    before.listed = dict(store.listed)
    token = store.fields["token"].decode()
    read = claimed(before, token, plan=SMALL)
    for owned in (lane, read):
        at_ms = SETTLE_MS + 3 * BASE_MS + 10
        settled(owned.lane, clicked(at_ms, "z", of="teams"), passing(2 * at_ms))
    commits = [plan_commit(owned) for owned in (lane, read)]
    assert commits[0].blobs and commits[0].blobs == commits[1].blobs
    assert commits[0].fields == commits[1].fields


def test_integers_are_written_by_byte_position_lowest_first() -> None:
    packed = pack_integers(np.array([1, -2, 0x0102030405060708], np.int64))
    assert packed.hex() == "01fe0800ff0700ff0600ff0500ff0400ff0300ff0200ff01"


def test_the_default_configuration_keeps_its_namespace() -> None:
    """A default that shapes rows starts fresh namespaces for all who rely on it."""
    config = load("", {}, "test")
    assert namespace(config) == consumer_group(config) == "relevanced-95c74a6e"


if __name__ == "__main__":
    for name, data in stored(*fed()).items():
        print(repr(name), data.hex())
