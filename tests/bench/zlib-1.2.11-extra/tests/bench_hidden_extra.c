#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "zlib.h"

static int number;

/* Each in a process of its own: a crash is a failure, not the end. */
static void check(const char *name, int (*test)(void))
{
    int status = 1;
    pid_t pid;
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(test() ? 0 : 1);
    waitpid(pid, &status, 0);
    printf("%sok %d - %s\n", status == 0 ? "" : "not ", ++number, name);
}


enum { ROOM = 8, GUARD = 64 };

/* A gzip file with `len` bytes of extra field, read in pieces of `step` bytes. */
static int extra(unsigned len, unsigned step, unsigned room)
{
    static unsigned char file[4096];
    unsigned char field[ROOM + GUARD], out[100];
    unsigned at = 0, n, i;
    int result = Z_OK;
    z_stream pack, z;
    gz_header head;
    unsigned char own[1000];

    memset(&pack, 0, sizeof pack);
    memset(&z, 0, sizeof z);
    memset(&head, 0, sizeof head);
    for (i = 0; i < sizeof own; i++)
        own[i] = (unsigned char)(i + 1);
    deflateInit2(&pack, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    head.extra = own;
    head.extra_len = len;
    deflateSetHeader(&pack, &head);
    pack.next_in = (unsigned char *)"hello";
    pack.avail_in = 5;
    pack.next_out = file;
    pack.avail_out = sizeof file;
    if (deflate(&pack, Z_FINISH) != Z_STREAM_END)
        return 0;
    n = pack.total_out;

    memset(&head, 0, sizeof head);
    memset(field, 0xee, sizeof field);
    head.extra = field;
    head.extra_max = room;
    inflateInit2(&z, 31);
    inflateGetHeader(&z, &head);
    z.next_out = out;
    z.avail_out = sizeof out;
    while (at < n && result == Z_OK) {
        z.next_in = file + at;
        z.avail_in = n - at < step ? n - at : step;
        at += z.avail_in;
        result = inflate(&z, Z_NO_FLUSH);
    }
    if (result != Z_STREAM_END || memcmp(out, "hello", 5) != 0 || head.extra_len != len)
        return 0;
    for (i = 0; i < sizeof field; i++) {
        unsigned char expected = i < room && i < len ? own[i] : 0xee;
        if (field[i] != expected)
            return 0;
    }
    return 1;
}

static int long_by_bytes(void) { return extra(500, 1, ROOM); }
static int long_by_pieces(void) { return extra(500, 20, ROOM); }
static int a_little_too_long(void) { return extra(ROOM + 3, 1, ROOM); }
static int long_at_once(void) { return extra(500, 4096, ROOM); }
static int short_by_bytes(void) { return extra(5, 1, ROOM); }
static int exact_by_bytes(void) { return extra(ROOM, 1, ROOM); }

static int round_trip(void)
{
    unsigned char text[5000], packed[6000], back[5000];
    uLongf n = sizeof packed, m = sizeof back;
    unsigned i;
    for (i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 7 % 251 + i / 100);
    if (compress(packed, &n, text, sizeof text) != Z_OK)
        return 0;
    return uncompress(back, &m, packed, n) == Z_OK && m == sizeof text && memcmp(text, back, m) == 0;
}

static int damaged(void)
{
    unsigned char text[100], packed[200], back[100];
    uLongf n = sizeof packed, m = sizeof back;
    memset(text, 'x', sizeof text);
    compress(packed, &n, text, sizeof text);
    packed[n - 1] ^= 1;
    return uncompress(back, &m, packed, n) == Z_DATA_ERROR;
}

int main(void)
{
    check("long field, a byte at a time", long_by_bytes);
    check("long field, in pieces", long_by_pieces);
    check("a little too long", a_little_too_long);
    check("long field, at once", long_at_once);
    check("short field, a byte at a time", short_by_bytes);
    check("field that just fits", exact_by_bytes);
    check("round trip", round_trip);
    check("damaged data", damaged);
    return 0;
}
