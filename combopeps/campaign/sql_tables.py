"""The tables of campaigns, and what is asked of them all the time."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CAMPAIGNS = sa.Table(
    "combopeps_campaigns", METADATA,
    sa.Column("id", _NUMBER, sa.Identity(), primary_key=True),
    sa.Column("name", sa.Text(), nullable=False, unique=True),
    sqlite_autoincrement=True,  # no number is given twice, also after a campaign was deleted
)  # fmt: skip
LINES = sa.Table(
    "combopeps_lines", METADATA,
    sa.Column("campaign", _NUMBER, sa.ForeignKey(CAMPAIGNS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("line", sa.Text(), nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
SNAPSHOTS = sa.Table(
    "combopeps_snapshots", METADATA,
    sa.Column("campaign", _NUMBER, sa.ForeignKey(CAMPAIGNS.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("data", sa.LargeBinary(), nullable=False),
)  # fmt: skip
ID = sa.select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.name == sa.bindparam("name"))
LOCKED_ID = ID.with_for_update(key_share=True)
OWN = LINES.c.campaign == ID.scalar_subquery()  # one statement finds a campaign and reads it, whatever others do
LAST = sa.select(sa.func.max(LINES.c.number)).where(LINES.c.campaign == sa.bindparam("number"))
_PIECE_OF = LINES.c.number.between(sa.bindparam("first"), sa.bindparam("last"))
NUMBERED = sa.select(LINES).where(OWN, _PIECE_OF).order_by(LINES.c.number).subquery()
SNAPSHOT = sa.select(SNAPSHOTS.c.data).where(SNAPSHOTS.c.campaign == ID.scalar_subquery())
