"""The moves of the last campaign whose replacement is on a node."""

import msgspec

from equipoise.descheduler.state.moves.pending_moves import TrackedMove


class CampaignMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a campaign, with the pod that replaces the evicted one."""

    node: str
    """The node that the pod was moved away from."""

    target: str
    placed_on: str
    replacement_uid: str


class CampaignMoves(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one campaign, as far as this replica knows them: it was running when they were made."""

    name: str = ""
    moves: tuple[CampaignMove, ...] = ()

    def with_replacement(self, move: TrackedMove, *, uid: str, placed_on: str) -> "CampaignMoves":
        """The moves after the replacement of one was placed. The first one of another campaign begins anew."""
        if not move.campaign:
            return self
        placed = CampaignMove(node=move.node, target=move.target, placed_on=placed_on, replacement_uid=uid)
        earlier = self.moves if move.campaign == self.name else ()
        return CampaignMoves(name=move.campaign, moves=(*earlier, placed))
