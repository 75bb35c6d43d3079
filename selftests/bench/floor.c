// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The floor of a reliable transport in user space: processes that do what no such transport can
 * leave out, and nothing else.
 *
 *   floor SECONDS frames NETNS-FILE IF NETNS-FILE IF FRAME PAYLOAD MEMORY
 *   floor SECONDS gso NETNS-FILE IF NETNS-FILE IF PAYLOAD MEMORY DROP REORDER FIRST
 *
 * A worker copies PAYLOAD bytes of a message of 64 KiB into each frame of FRAME bytes and adds a
 * CRC. The worker of the other side checks the CRC, copies the payload to memory, and acknowledges
 * what it found in its ring by a frame of 64 bytes. The frames under way fill half of the ring of
 * the receiver at most. A program looks for the ends of messages, and sleeps for 150 us if it finds
 * none, as the provider does in a stream (docs/provider.md). Each worker has a processor, and the
 * program shares that of the receiver. Messages are in MEMORY bytes on each side. Prints "floor
 * FRAME FRAMES-PER-SECOND" and the processor time of sender, receiver and program in ns a frame,
 * tab-separated.
 *
 * With gso, frames are GSO frames of such packets with PAYLOAD bytes each, in generic XDP
 * (docs/gso.md). Of 1000 packets to and from the receiver, DROP are lost there, and REORDER held
 * back for up to 50 us. The FIRST packets of each message have a frame of their own, as the first
 * packet of a WRITE is longer than the others, so a GSO frame ends behind it or the next one; 0:
 * none have. The receiver places packets that come early, and sends a NAK at once for
 * the first one that is missing (floor_repeat.h). All figures are of packets then, and three more
 * are printed: frames for 1000 packets, mean number of packets on their way when one is sent again
 * after a NAK, and mean time in ns until a missing packet has come.
 *
 *   floor SECONDS socket NETNS-FILE IF NETNS-FILE IF PAYLOAD MEMORY
 *
 * The same through UDP sockets, without XDP: the sender passes as many packets as fit to a call,
 * the receiver acknowledges what a call has returned, and four messages are under way.
 *
 *   floor SECONDS words|writes|placed NETNS-FILE IF NETNS-FILE IF
 *   floor SECONDS words
 *
 * A program on each side exchanges words with its worker in shared memory, and the workers exchange
 * frames of 64 bytes. A worker that receives a word acknowledges it by a further frame. Prints half
 * of the time of round trips in us, one a line, sorted. With writes, each word is a WRITE: a
 * program yields until its word is acknowledged, and then waits for the next one without yielding.
 * The workers sleep, and are woken by programs and by frames. With placed, the XDP program of the
 * receiving interface executes the WRITE, and its worker is not involved (place.bpf.c). Without
 * interfaces, one worker carries the words between the two programs, as within one host.
 *
 *   floor SECONDS direct|tcp NETNS-FILE IF NETNS-FILE IF
 *
 * Two programs exchange 8-byte words through sockets that they poll without yielding, each on a
 * processor of its own. Prints the same. With direct, each program does what no RDMA transport
 * leaves out that runs in the program's own thread and sends by UDP sockets: a word is a datagram
 * of the size of an 8-byte WRITE with a CRC, which its receiver checks and copies to memory, and
 * acknowledges by a datagram of its own before it answers. Both leave in one call. With tcp, the
 * kernel's transport does all of that.
 *
 * Otherwise all processes yield the processor if they have nothing to do.
 */
#include "floor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared *shared;

pid_t new_process(void)
{
	pid_t child = fork();

	if (child < 0)
		raw_die("fork", errno);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid(); /* as programs and daemons: a group of the scheduler each */
	}
	return child;
}

void wait_for_all(int n)
{
	int status;

	while (n--)
		if (wait(&status) < 0 || status)
			raw_die("a process failed", ECHILD);
}

uint8_t *new_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		raw_die("memory", errno);
	return memory;
}

/* Returns false if the command line is wrong. */
static bool measure(uint64_t duration, const char *what, char **args, int n)
{
	if (!strcmp(what, "words") && !n)
		floor_words_within_host(duration);
	else if (!strcmp(what, "words") && n == 4)
		floor_words(args, duration, SEND_WORDS);
	else if (!strcmp(what, "writes") && n == 4)
		floor_words(args, duration, WRITE_WORDS);
	else if (!strcmp(what, "placed") && n == 4)
		floor_words(args, duration, PLACE_WORDS);
	else if ((!strcmp(what, "direct") || !strcmp(what, "tcp")) && n == 4)
		floor_pingpong(args, duration, *what == 't');
	else if (!strcmp(what, "frames") && n == 7)
		floor_frames(args, duration, args + 4);
	else if (!strcmp(what, "socket") && n == 6)
		floor_socket(args, duration, args + 4);
	else if (!strcmp(what, "gso") && n == 9)
		floor_gso(args, duration, args + 4);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		raw_die("memory", errno);
	if (argc > 2 && atof(argv[1]) > 0 &&
	    measure((uint64_t)(1e9 * atof(argv[1])), argv[2], argv + 3, argc - 3))
		return 0;
	fprintf(stderr, "usage: floor SECONDS words\n"
			"       floor SECONDS words|writes|placed|direct|tcp NETNS IF NETNS IF\n"
			"       floor SECONDS frames NETNS IF NETNS IF FRAME PAYLOAD MEMORY\n"
			"       floor SECONDS socket NETNS IF NETNS IF PAYLOAD MEMORY\n"
			"       floor SECONDS gso NETNS IF NETNS IF PAYLOAD MEMORY DROP REORDER "
			"FIRST\n");
	return 2;
}
