/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define PORT_FIRST 10000
#define PORT_LAST  30000

static void output_name(struct process *p, const char *program, const char *output)
{
    static unsigned started_n;
    const char *name = strrchr(program, '/');
    name = name != NULL ? name + 1 : program;
    int n;
    if (output == NULL)
        n = snprintf(p->output, sizeof p->output, "%s/%s-%u.log", temp_folder(), name, ++started_n);
    else if (strchr(output, '/') == NULL)
        n = snprintf(p->output, sizeof p->output, "%s/%s", temp_folder(), output);
    else
        n = snprintf(p->output, sizeof p->output, "%s", output);
    if (n < 0 || (size_t)n >= sizeof p->output)
        test_fail(__FILE__, __LINE__, "the name of the output of %s is too long", program);
}

static void user_become(const struct passwd *user)
{
    if (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0) {
        perror("setuid");
        _exit(126);
    }
}

/* In the child. Becoming somebody else clears the death signal, so it comes after. */
_Noreturn static void child_exec(const char *const *argv, const char *const *env, int in, int out, const struct passwd *user, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    if (user != NULL)
        user_become(user);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    for (; env != NULL && *env != NULL; env++)
        putenv((char *)(uintptr_t)*env);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    perror(argv[0]);
    _exit(127);
}

struct process process_start_with(const char *const *argv, const char *const *env, const char *output, struct process_options options)
{
    struct process p = {.pid = -1};
    output_name(&p, argv[0], output);
    const struct passwd *user = NULL;
    if (options.user != NULL && getuid() == 0 && (user = getpwnam(options.user)) == NULL)
        test_fail(__FILE__, __LINE__, "there is no user %s to run %s as", options.user, argv[0]);
    int in = options.input > 0 ? options.input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(p.output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (in < 0 || out < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", p.output, strerror(errno));
    fflush(NULL);
    pid_t parent = getpid();
    p.pid = fork();
    if (p.pid < 0)
        test_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
    if (p.pid == 0)
        child_exec(argv, env, in, out, user, parent);
    close(out);
    if (options.input <= 0)
        close(in);
    return p;
}

struct process process_start(const char *const *argv, const char *const *env, const char *output)
{
    return process_start_with(argv, env, output, (struct process_options){0});
}

static int64_t real_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool process_running(struct process *p)
{
    if (p->pid <= 0)
        return false;
    int status;
    pid_t got = waitpid(p->pid, &status, WNOHANG);
    if (got == 0)
        return true;
    if (got < 0) /* started by the suite: not our child but our parent's, which buries it */
        return kill(p->pid, 0) == 0;
    p->status = status;
    p->pid = 0;
    p->ended_ms = real_ms();
    return false;
}

static bool thread_runs(pid_t pid, const char *thread)
{
    char name[300], state = 'X';
    FILE *f;

    (void)snprintf(name, sizeof name, "/proc/%d/task/%s/stat", (int)pid, thread);
    f = fopen(name, "r");
    if (f == NULL)
        return false;
    (void)!fscanf(f, "%*d (%*[^)]) %c", &state);
    (void)fclose(f);
    return strchr("TtXZ", state) == NULL;
}

static bool threads_stopped(pid_t pid)
{
    char name[32];
    struct dirent *entry;
    bool stopped = true;
    DIR *threads;

    (void)snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
    threads = opendir(name);
    if (threads == NULL)
        return true; /* it is gone */
    while ((entry = readdir(threads)) != NULL)
        stopped &= entry->d_name[0] == '.' || !thread_runs(pid, entry->d_name);
    (void)closedir(threads);
    return stopped;
}

void process_signal(struct process *p, int signal_number)
{
    if (p->pid <= 0)
        return;
    kill(p->pid, signal_number);
    if (signal_number == SIGSTOP)
        WAIT_UNTIL(threads_stopped(p->pid), 10);
}

int process_wait(struct process *p, unsigned seconds)
{
    WAIT_UNTIL(!process_running(p), seconds);
    return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

void process_run(const char *const *argv, const char *const *env, struct process_options options, unsigned seconds)
{
    struct process p = process_start_with(argv, env, NULL, options);
    int status = process_wait(&p, seconds);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "%s %s ended with status %d:\n%s", argv[0], argv[1] != NULL ? argv[1] : "", status,
                  process_output(&p));
    unlink(p.output);
}

const char *process_output(const struct process *p)
{
    static char *text;
    free(text);
    text = NULL;
    FILE *f = fopen(p->output, "re");
    if (f == NULL)
        return "";
    struct stat st;
    size_t size = fstat(fileno(f), &st) == 0 ? (size_t)st.st_size : 0;
    text = malloc(size + 1);
    if (text == NULL)
        test_fail(__FILE__, __LINE__, "out of memory");
    text[fread(text, 1, size, f)] = 0;
    fclose(f);
    return text;
}

/* Processes that run parts of a suite at once have parts of the range: what one has asked for and not bound yet, or what is down for a while,
 * is not another's. */
static int port_number(unsigned n)
{
    const char *text = getenv("TEST_PART");
    unsigned part, parts;
    if (text == NULL || sscanf(text, "%u/%u", &part, &parts) != 2 || parts == 0)
        part = 0, parts = 1;
    unsigned size = (PORT_LAST - PORT_FIRST) / parts;
    return PORT_FIRST + (int)(part % parts * size + n % size);
}

/* A port of the range for outgoing connections could be taken by one of them while its server restarts; or a client that retries could
 * even be connected to itself. */
int free_port(void)
{
    static unsigned next;
    if (next == 0)
        next = (unsigned)getpid() * 7919 + (unsigned)test_now_ms();
    for (int tries = 0; tries < 1000; tries++) {
        int port = port_number(next++);
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        bool is_free = s >= 0 && bind(s, (const struct sockaddr *)&address, sizeof address) == 0;
        if (s >= 0)
            close(s);
        if (is_free)
            return port;
    }
    test_fail(__FILE__, __LINE__, "there is no free port");
}
