"""Resumed training: another number of workers, and options that differ from the checkpoint's."""

import pytest
import torch
from fairseq.data import iterators

from fairseq_etads.fairseq_fixes.trainer import ResumableBatches

BATCHES = 11


class Documents(torch.utils.data.Dataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, number):
        return number


def batches(workers=1, rank=0, kind=ResumableBatches, **options):
    sampler = [[number] for number in range(BATCHES)]
    return kind(Documents(), list, sampler, num_shards=workers, shard_id=rank, **options)


def read(epoch, chunk=1, updates=None):
    """Documents that a worker has read after some updates, or until the end, in the order of fairseq's loop."""
    groups, found = iterators.GroupedIterator(epoch, chunk), []
    while groups.has_next() and updates != 0:
        found += [batch[0] for batch in next(groups) if batch]
        updates = None if updates is None else updates - 1
    return found


def all_read(workers, state=None, chunk=1, updates=None):
    """Documents that all workers have read in an epoch, and the state that the first worker saves."""
    found, saved = [], None
    for rank in range(workers):
        part = batches(workers, rank)
        if state is not None:
            part.load_state_dict(state)
        found += read(part.next_epoch_itr(), chunk, updates)
        saved = saved or part.state_dict()
        assert updates is not None or part.end_of_epoch()
    return found, saved


@pytest.mark.parametrize("first", [(1, 1, 3), (1, 2, 2), (2, 1, 2), (2, 2, 1), (3, 1, 2)])
@pytest.mark.parametrize("then", [(1, 1), (1, 4), (2, 3), (3, 1), (4, 2)])
def test_another_number_of_workers_reads_what_is_left_of_an_epoch(first, then):
    """fairseq counted one worker's batches for every worker: some were read twice, or none was left."""
    workers, chunk, updates = first
    before, state = all_read(workers, None, chunk, updates)
    state["is_shared_out_again"] = then[1] != chunk  # as Trainer.load_checkpoint's wrapper sets it
    after, state = all_read(then[0], state, then[1])
    assert sorted(before + after) == list(range(BATCHES))
    assert state["epoch"] == 2 and state["iterations_in_epoch"] == 0


def test_it_can_be_resumed_once_more():
    first, state = all_read(2, None, 1, 1)
    second, state = all_read(3, state, 1, 1)
    third, state = all_read(3, state, 1, 1)
    assert state["batches_read"] == 8
    fourth, _ = all_read(1, state)
    assert sorted(first + second + third + fourth) == list(range(BATCHES))


def test_the_same_workers_continue_as_fairseq_does():
    state = all_read(2, None, 2, 1)[1]
    assert not state["is_shared_out_again"]
    resumed, plain = batches(2), batches(2, kind=ResumableBatches.__mro__[1])
    for part in (resumed, plain):
        part.load_state_dict(state)
    assert read(resumed.next_epoch_itr(), 2) == read(plain.next_epoch_itr(), 2)


def test_later_epochs_are_shared_out_whole():
    part, other = batches(2, 1), batches(2, 1, epoch=2)
    part.load_state_dict(all_read(1, None, 1, 3)[1])
    read(part.next_epoch_itr())
    assert part.next_epoch_idx == 2
    assert read(part.next_epoch_itr()) == read(other.next_epoch_itr())


@pytest.mark.parametrize("reuse", [True, False])
def test_batches_are_shuffled_after_the_epochs_of_the_curriculum(reuse):
    """fairseq kept the order of the first epoch for all later ones, because it keeps the data loader."""
    part = batches(reuse_dataloader=reuse)
    orders = [read(part.next_epoch_itr(shuffle=epoch > 2)) for epoch in (1, 2, 3, 4)]
    assert orders[0] == orders[1] == list(range(BATCHES))
    again = batches(epoch=3)
    assert orders[2] == read(again.next_epoch_itr(shuffle=True)) != orders[0]
    assert orders[3] not in (orders[0], orders[2])
