/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A guest without an operating system, which QEMU starts by -kernel (Multiboot). It fills MEMORY
 * bytes of its memory, then checks and changes one page after the other, for ever. On the first
 * serial port it prints a line for each round, or, and then it stops, for the first wrong word.
 *
 * It goes from high to low addresses. QEMU migrates pages the other way, so in a postcopy migration
 * a page that the guest needs is seldom on its way already.
 */

#define START (4u << 20)
#ifndef MEMORY
#define MEMORY (48u << 20) /* the machine needs 64 MiB */
#endif
#define PAGE 4096u
#define WORDS (PAGE / 4)

__asm__(".pushsection .multiboot, \"a\"\n"
	".balign 4\n.long 0x1badb002, 0, -0x1badb002\n"
	".popsection\n"
	".globl _start\n"
	"_start: mov $0x80000, %esp\n"
	"call run\n");

static void put(char c)
{
	unsigned char state;

	do
		__asm__ volatile("inb %1, %0" : "=a"(state) : "Nd"((unsigned short)0x3fd));
	while (!(state & 0x20));
	__asm__ volatile("outb %0, %1" : : "a"(c), "Nd"((unsigned short)0x3f8));
}

static void print(const char *text, unsigned int number)
{
	char digits[8];
	int i = 0;

	while (*text)
		put(*text++);
	do
		digits[i++] = '0' + number % 10;
	while ((number /= 10));
	while (i)
		put(digits[--i]);
	put('\n');
}

/* The word that a page is to have after a round. */
static unsigned int word(unsigned int page, unsigned int i, unsigned int round)
{
	return (page * WORDS + i) ^ (round * 0x9e3779b9u);
}

static void fill(unsigned int page, unsigned int round)
{
	volatile unsigned int *words = (volatile unsigned int *)(START + page * PAGE);

	for (unsigned int i = 0; i < WORDS; i++)
		words[i] = word(page, i, round);
}

static void check(unsigned int page, unsigned int round)
{
	volatile unsigned int *words = (volatile unsigned int *)(START + page * PAGE);

	for (unsigned int i = 0; i < WORDS; i++) {
		if (words[i] == word(page, i, round))
			continue;
		print("bad page ", page);
		for (;;)
			__asm__ volatile("cli; hlt");
	}
}

__attribute__((used)) static void run(void)
{
	for (unsigned int page = 0; page < MEMORY / PAGE; page++)
		fill(page, 0);
	for (unsigned int round = 0;; round++) {
		print("round ", round);
		for (unsigned int page = MEMORY / PAGE; page-- > 0;) {
			check(page, round);
			fill(page, round + 1);
		}
	}
}
