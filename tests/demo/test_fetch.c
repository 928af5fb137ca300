/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/fetch.h"
#include "producer-demo/lib/web.h"
#include "tests/demo/program.h"
#include "tests/lib/test.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int long_n = 9 << 20;

/* "/retry/TEXT" has Retry-After: TEXT, and so on; anything else is echoed: method, path, Content-Type and body. */
static void handle(void *context, const struct web_request *request, struct web_response *response)
{
    const char *path = request->path, *type = web_request_header(request, "Content-Type");

    (void)context;
    web_response_text(response, 200, "text/plain", "%s %s %s %s", request->method, path, type ? type : "-", request->body);
    if (strncmp(path, "/retry/", 7) == 0)
        web_response_header(response, "retry-AFTER", "%s", path + 7);
    else if (strncmp(path, "/replayed/", 10) == 0)
        web_response_header(response, "Idempotent-Replayed", "%s", path + 10);
    else if (strcmp(path, "/etag") == 0)
        web_response_header(response, "ETag", "\"7\"");
    else if (strcmp(path, "/moved") == 0) {
        response->status = 301;
        web_response_header(response, "Location", "/else");
    } else if (strcmp(path, "/long") == 0)
        web_response_text(response, 200, "text/plain", "%0*d", long_n, 0);
    else if (strcmp(path, "/closed") == 0)
        (void)shutdown(MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, SHUT_RDWR);
}

static const char *serve(void)
{
    char reason[200] = "";
    struct web *web =
        web_start(&(struct web_settings){.listen = "127.0.0.1:0", .threads = 2, .body_max = 65536, .timeout_s = 60, .handler = handle},
                  reason, sizeof reason);

    if (!web)
        test_fail(__FILE__, __LINE__, "%s", reason);
    return program_text("http://127.0.0.1:%d", web_port(web));
}

static const struct fetch_response *get(const char *server, const char *path)
{
    return program_ask("GET", program_text("%s%s", server, path), NULL, NULL);
}

TEST(demo_client_fetch_sends_what_it_is_told)
{
    const char *server = serve(), *plain[] = {"Content-Type: text/plain", NULL};
    const char *url = program_text("%s/x?y", server);

    CHECK_STR(get(server, "/x")->body, "GET /x - ");
    CHECK_STR(program_ask("POST", url, NULL, "{}")->body, "POST /x application/json {}");
    CHECK_STR(program_ask("POST", url, plain, "abc")->body, "POST /x text/plain abc");
    CHECK_STR(program_ask("PUT", url, NULL, "{}")->body, "PUT /x application/json {}");
    CHECK_STR(program_ask("DELETE", url, NULL, NULL)->body, "DELETE /x - ");
}

TEST(demo_client_fetch_reads_the_headers_that_matter)
{
    const char *server = serve();
    const struct fetch_response *plain = get(server, "/x");

    CHECK(plain->retry_after_s == -1 && !plain->replayed && !plain->etag[0]);
    CHECK_EQ(get(server, "/retry/0")->retry_after_s, 0);
    CHECK_EQ(get(server, "/retry/17")->retry_after_s, 17);
    CHECK_EQ(get(server, "/retry/17x")->retry_after_s, -1);
    CHECK_EQ(get(server, "/retry/-1")->retry_after_s, -1);
    CHECK_EQ(get(server, "/retry/99999999999999999999")->retry_after_s, -1);
    CHECK(get(server, "/replayed/true")->replayed);
    CHECK(!get(server, "/replayed/false")->replayed);
    CHECK_STR(get(server, "/etag")->etag, "\"7\"");
    CHECK_EQ(get(server, "/moved")->status, 301);
}

TEST(demo_client_fetch_says_why_there_is_no_answer)
{
    const char *server = serve();

    CHECK_EQ(get(server, "/closed")->status, 0);
    CHECK(get(server, "/closed")->reason[0]);
    CHECK_EQ(get(server, "/long")->status, 0);
    CHECK_EQ(get("http://127.0.0.1:1", "/")->status, 0);
    CHECK(strstr(get("http://127.0.0.1:1", "/")->reason, "127.0.0.1"));
    CHECK_EQ(get("file:///etc", "/passwd")->status, 0);
    CHECK(setenv("http_proxy", "http://127.0.0.1:1", 1) == 0);
    CHECK_EQ(get(server, "/x")->status, 200);
}

/* A server that takes the connection and says nothing. */
TEST(demo_client_fetch_waits_no_longer_than_it_is_told)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t began_ms = test_now_ms();

    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 5) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &address_n) == 0);
    fetch_send(
        fetch,
        &(struct fetch_request){.method = "GET", .url = program_text("http://127.0.0.1:%d/", ntohs(address.sin_port)), .timeout_ms = 200},
        &response);
    CHECK_EQ(response.status, 0);
    CHECK(strstr(response.reason, "timed out"));
    CHECK(test_now_ms() - began_ms >= 200 && test_now_ms() - began_ms < 10000);
    fetch_close(fetch);
}
