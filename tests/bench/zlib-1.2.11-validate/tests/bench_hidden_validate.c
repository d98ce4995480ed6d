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


/* Packs and unpacks with a window of `bits`; `validate` below 0: never said. */
static int unpack(int bits, int validate, int damage, int expected)
{
    unsigned char text[300], packed[400], out[400];
    z_stream pack, z;
    int result;
    unsigned i;
    memset(&pack, 0, sizeof pack);
    memset(&z, 0, sizeof z);
    memset(packed, 0, sizeof packed);
    for (i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 31 % 253);
    deflateInit2(&pack, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY);
    pack.next_in = text;
    pack.avail_in = sizeof text;
    pack.next_out = packed;
    pack.avail_out = sizeof packed;
    deflate(&pack, Z_FINISH);
    /* The check value: last of a zlib stream. */
    if (damage)
        packed[pack.total_out - 1] ^= 1;
    inflateInit2(&z, bits);
    if (validate >= 0 && inflateValidate(&z, validate) != Z_OK)
        return 0;
    z.next_in = packed;
    /* What follows is not part of it. */
    z.avail_in = pack.total_out + (bits < 0 ? 8 : 0);
    z.next_out = out;
    z.avail_out = sizeof out;
    result = inflate(&z, Z_NO_FLUSH);
    if (result != expected)
        return 0;
    return expected != Z_STREAM_END || (z.total_out == sizeof text && memcmp(out, text, sizeof text) == 0 &&
        z.total_in == pack.total_out);
}

static int raw(void) { return unpack(-15, 1, 0, Z_STREAM_END); }
static int raw_small(void) { return unpack(-9, 1, 0, Z_STREAM_END); }
static int raw_off(void) { return unpack(-15, 0, 0, Z_STREAM_END); }
static int raw_default(void) { return unpack(-15, -1, 0, Z_STREAM_END); }
static int zlib_on(void) { return unpack(15, 1, 0, Z_STREAM_END) && unpack(15, 1, 1, Z_DATA_ERROR); }
static int zlib_off(void) { return unpack(15, 0, 1, Z_STREAM_END); }
static int gzip_on(void) { return unpack(31, 1, 0, Z_STREAM_END); }

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
    check("raw data, checked", raw);
    check("raw data of a small window, checked", raw_small);
    check("raw data, unchecked", raw_off);
    check("raw data", raw_default);
    check("zlib data, checked", zlib_on);
    check("zlib data, unchecked", zlib_off);
    check("gzip data, checked", gzip_on);
    check("round trip", round_trip);
    check("damaged data", damaged);
    return 0;
}
