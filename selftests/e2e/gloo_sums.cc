/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program of gloo: collective operations over ibverbs; every value is checked.
 *
 *   gloo_sums RANK RANKS STORE DEVICE GID_INDEX REPETITIONS
 *
 * Ranks exchange addresses by files in the folder STORE.
 */
#include <gloo/allgather_ring.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using Values = std::vector<long>;
using Group = std::shared_ptr<gloo::rendezvous::Context>;

/*
 * Operations are destroyed at the end only: gloo ends a program that destroys one whose last
 * requests are not completed.
 */
static std::vector<std::unique_ptr<gloo::Algorithm>> operations;
static std::vector<std::unique_ptr<Values>> memory;

static void check(const char *what, const Group &group, long got, long wanted)
{
	if (got == wanted)
		return;
	printf("rank %d of %d: %s: %ld, not %ld\n", group->rank, group->size, what, got, wanted);
	exit(1);
}

static Values &allocate(int count, long value = 0)
{
	memory.push_back(std::make_unique<Values>(count, value));
	return *memory.back();
}

template <typename Operation, typename... Arguments>
static gloo::Algorithm &create(Arguments &&...arguments)
{
	operations.push_back(std::make_unique<Operation>(arguments...));
	return *operations.back();
}

using Pointers = std::vector<long *>;

/* All ranks get the sums of all. */
template <typename Operation>
static void sums(const Group &group, const char *what, int count, int repetitions)
{
	const long ranks = group->size;
	Values &values = allocate(count);
	gloo::Algorithm &operation = create<Operation>(group, Pointers{ values.data() }, count);

	for (int n = 0; n < repetitions; n++) {
		for (int i = 0; i < count; i++)
			values[i] = group->rank + i + n;
		operation.run();
		for (int i = 0; i < count; i++)
			check(what, group, values[i], ranks * (i + n) + ranks * (ranks - 1) / 2);
	}
}

/* All ranks get the values of one. */
static void broadcasts(const Group &group, int count)
{
	for (int root = 0; root < group->size; root++) {
		Values &values = allocate(count, group->rank);

		create<gloo::BroadcastOneToAll<long>>(group, Pointers{ values.data() }, count, root)
			.run();
		for (long value : values)
			check("broadcast", group, value, root);
	}
}

/* All ranks get the values of each. */
static void gathers(const Group &group, int count)
{
	Values &mine = allocate(count, group->rank), &all = allocate(count * group->size);
	std::vector<const long *> pointers{ mine.data() };

	create<gloo::AllgatherRing<long>>(group, pointers, all.data(), count).run();
	for (size_t i = 0; i < all.size(); i++)
		check("gather", group, all[i], i / count);
}

/* Waits until all requests of all ranks are completed. */
static void finish(const Group &group, gloo::rendezvous::Store &store)
{
	std::vector<std::unique_ptr<gloo::transport::Buffer>> out, in;
	std::vector<std::string> ended;
	std::vector<int> words(2 * group->size);
	const int slot = group->nextSlot();

	for (int i = 0; i < group->size; i++) {
		ended.push_back("ended-" + std::to_string(i));
		if (i == group->rank)
			continue;
		out.push_back(
			group->getPair(i)->createSendBuffer(slot, &words[2 * i], sizeof(int)));
		in.push_back(
			group->getPair(i)->createRecvBuffer(slot, &words[2 * i + 1], sizeof(int)));
	}
	for (auto &buffer : out)
		buffer->send();
	for (auto &buffer : in)
		buffer->waitRecv();
	for (auto &buffer : out)
		buffer->waitSend();
	store.set(ended[group->rank], { 'y' });
	store.wait(ended);
	operations.clear();
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	const int rank = atoi(argv[1]), ranks = atoi(argv[2]), repetitions = atoi(argv[6]);
	auto device = gloo::transport::ibverbs::CreateDevice({ argv[4], 1, atoi(argv[5]) });
	auto group = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
	gloo::rendezvous::FileStore store(argv[3]);

	group->connectFullMesh(store, device);
	for (int count : { 1, 100, 5000, 300000 }) {
		sums<gloo::AllreduceRingChunked<long>>(group, "sums by a ring", count, repetitions);
		sums<gloo::AllreduceHalvingDoubling<long>>(group, "sums by halves", count,
							   repetitions);
		broadcasts(group, count);
		gathers(group, count);
	}
	finish(group, store);
	printf("rank %d of %d: all values are right\n", rank, ranks);
	return 0;
}
