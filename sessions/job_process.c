// sessions/job_process.c -- the process of a job: its lock, its start, its folder.
//
// The lock is a POSIX record lock: the kernel releases it however the process ends, and reports its
// holder, so that a reused process number cannot be mistaken for the job.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "sessions/job_internal.h"

// --- paths ---------------------------------------------------------------------------------------

static char *jobs_folder(const struct store *s)
{
    char *real = realpath(s->path, NULL);
    char *folder = xasprintf("%s.jobs", real ? real : s->path);
    free(real);
    return folder;
}

char *job_path(const struct store *s, int64_t id, const char *name)
{
    char *folder = jobs_folder(s);
    char *path = xasprintf("%s/%lld%s%s", folder, (long long)id, name ? "/" : "", name ? name : "");
    free(folder);
    return path;
}

static int folder_make(const char *path, struct err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return 0;
    return err_set(err, "cannot create the folder '%s': %s", path, strerror(errno));
}

static const char made_prefix[] = "vlmsh-job-";

// Makes the job's folder in `shared`, beside those of other databases and users.
static int make_shared(const char *shared, const char *link, struct err *err)
{
    char *made = xasprintf("%s/%sXXXXXX", shared, made_prefix);
    int status = -1;
    if (access(link, F_OK) == 0)
        status = 0; // made by an earlier start
    else if (!mkdtemp(made))
        err_set(err, "cannot create a folder in '%s' (job.folder): %s", shared, strerror(errno));
    else {
        char *real = realpath(made, NULL);
        unlink(link); // a dangling link
        status = real ? symlink(real, link) : -1;
        if (status < 0) err_set(err, "cannot create the link '%s': %s", link, strerror(errno));
        free(real);
    }
    free(made);
    return status;
}

int job_folder_make(const struct store *s, int64_t id, const char *shared, struct err *err)
{
    char *above = jobs_folder(s), *folder = job_path(s, id, NULL);
    int status = folder_make(above, err);
    if (status == 0)
        status = strcmp(shared, "none") != 0 ? make_shared(shared, folder, err)
                                             : folder_make(folder, err);
    free(folder);
    free(above);
    return status;
}

char *job_folder_real(const struct store *s, int64_t id, struct err *err)
{
    char *path = job_path(s, id, NULL), *real = realpath(path, NULL);
    if (!real) err_set(err, "the job's folder '%s' is gone: %s", path, strerror(errno));
    free(path);
    return real;
}

// Deletes the files in the folder and the folder: jobs create no folders in it. If the link leads
// to a folder that no job made, deletes the link alone.
void job_folder_remove(const struct store *s, int64_t id)
{
    struct stat st;
    char *path = job_path(s, id, NULL), *real = realpath(path, NULL);
    const bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (link && real && strncmp(strrchr(real, '/') + 1, made_prefix, sizeof made_prefix - 1) != 0) {
        free(real);
        real = NULL;
    }
    DIR *folder = real ? opendir(real) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    if (real) rmdir(real);
    unlink(path);
    free(real);
    free(path);
}

char *answer_lock_path(const struct store *s)
{
    char *folder = jobs_folder(s), *path = xasprintf("%s/answering", folder);
    free(folder);
    return path;
}

int open_beside(const struct store *s, const char *name)
{
    char *folder = jobs_folder(s), *path = xasprintf("%s/%s", folder, name);
    folder_make(folder, NULL);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    free(folder);
    return fd;
}

// A job holds the lock for an instant before each layer. A job suspended just then must not block
// this shell: after a moment the answer starts without the lock.
void answer_lock_mark(struct store *s, bool begins)
{
    const struct timespec moment = { .tv_nsec = 200000 };
    if (!begins) {
        if (s->answer_lock > 0) flock(s->answer_lock, LOCK_UN);
        return;
    }
    if (strcmp(tracked_setting(s, "job.pause_while_answering"), "on") != 0) return;
    if (s->answer_lock <= 0) s->answer_lock = open_beside(s, "answering");
    for (int i = 0; i < 100 && flock(s->answer_lock, LOCK_SH | LOCK_NB) < 0; i++)
        nanosleep(&moment, NULL);
}

// --- the lock ------------------------------------------------------------------------------------

int job_lock(const char *folder, int64_t id, const char *name, struct err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char *path = xasprintf("%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_set(err, "cannot open '%s': %s", path, strerror(errno));
    } else if (fcntl(fd, F_SETLK, &lock) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            err_set(err, "another process is already running job %lld", (long long)id);
        else
            err_set(err, "cannot lock '%s': %s", path, strerror(errno));
        close(fd);
        fd = -1;
    }
    free(path);
    return fd;
}

bool job_lock_valid(const char *folder, const char *name, int lock)
{
    struct stat named, held;
    char *path = xasprintf("%s/%s", folder, name);
    const bool stands = stat(path, &named) == 0 && fstat(lock, &held) == 0 &&
                        named.st_dev == held.st_dev && named.st_ino == held.st_ino;
    free(path);
    return stands;
}

// A process that holds a lock must not call this: closing the file would release the lock.
bool job_alive(const struct store *s, int64_t id, pid_t *pid)
{
    static const char *const names[] = { "lock", "group" };
    bool held = false;
    *pid = 0;
    for (int i = 0; i < 2 && !held; i++) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        char *path = job_path(s, id, names[i]);
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        held = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
        if (held) *pid = lock.l_pid;
        if (fd >= 0) close(fd);
        free(path);
    }
    return held;
}

int job_folder_clear(const struct store *s, int64_t id, struct err *err)
{
    struct stat st;
    pid_t pid; // 0: on another machine
    char *path = job_path(s, id, NULL), *former = xasprintf("%s.former", path);
    int status = 0;
    for (int i = 2; lstat(former, &st) == 0; i++) {
        free(former);
        former = xasprintf("%s.former-%d", path, i);
    }
    if (lstat(path, &st) < 0)
        status = 0; // the usual case
    else if (job_alive(s, id, &pid))
        status = pid ? err_set(err,
                               "a job of a removed database still runs in '%s', as process %lld: "
                               "end it first",
                               path, (long long)pid)
                     : err_set(err,
                               "a job of a removed database still runs in '%s', on another "
                               "machine: end it first",
                               path);
    else if (rename(path, former) < 0)
        status = err_set(err, "cannot move '%s', of a removed database, to '%s': %s", path, former,
                         strerror(errno));
    else
        sinks_notice(s->sinks, "'%s' belonged to a job of a removed database: moved to '%s'", path,
                     former);
    free(former);
    free(path);
    return status;
}

// --- fatal messages ------------------------------------------------------------------------------

static char *read_message(char *path)
{
    char *message = file_read(path, 1 << 16, NULL, NULL);
    free(path);
    return message ? message : xstrdup("");
}

static int open_message(char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    free(path);
    return fd;
}

static char *fatal_path(const char *folder, int rank)
{
    return rank ? xasprintf("%s/last-words.%d", folder, rank) : xasprintf("%s/last-words", folder);
}

char *job_fatal_message(const char *folder, int rank)
{
    return read_message(fatal_path(folder, rank));
}

int job_fatal_file_open(const char *folder, int rank)
{
    const int fd = open_message(fatal_path(folder, rank));
    // Allocates the file's blocks now: the job may end because the disk is full.
    if (fd >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096) < 0) errno = 0;
    return fd;
}

// Start errors have a separate file, because the next process logs the fatal message of the
// previous one.
char *job_start_error(const char *folder)
{
    return read_message(xasprintf("%s/not-begun", folder));
}

void job_start_error_write(const char *folder, const struct err *err)
{
    const int fd = open_message(xasprintf("%s/not-begun", folder));
    if (fd >= 0 && write(fd, err->text, strlen(err->text)) < 0) errno = 0; // the disk is full
    if (fd >= 0) close(fd);
}

void job_start_error_report(const char *db, int64_t id, const struct err *err)
{
    char *folder = job_path(&(struct store){ .path = (char *)(uintptr_t)db }, id, NULL);
    const int lock = job_lock(folder, id, "lock", NULL);
    if (lock >= 0) job_start_error_write(folder, err);
    if (lock >= 0) close(lock);
    free(folder);
}

// --- starting ------------------------------------------------------------------------------------

struct launch {
    char *db, *output, id[32], nice_text[32];
    char **environment; // the list is owned
    char *threads;      // an entry of `environment`, or NULL
    int nice;
};

// With autogroup, the kernel weighs sessions instead of processes, so the session's priority is
// lowered too.
static void lower_priority(const struct launch *l)
{
    if (!l->nice) return;
    setpriority(PRIO_PROCESS, 0, l->nice);
    const int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, l->nice_text, strlen(l->nice_text)) < 0) errno = 0; // optional
    close(fd);
}

_Noreturn static void give_up(int tell)
{
    const int why = errno;
    if (write(tell, &why, sizeof why) < 0) _exit(126);
    _exit(127);
}

// In the grandchild, where only system calls are safe: executes the job, or sends errno through
// `tell`. /proc/self/exe is this program even if its file was replaced or removed.
_Noreturn static void exec_job(const struct launch *l, int tell)
{
    char name[] = "vlmsh", word[] = "job", run[] = "run",
         option[] = "--db", *const argv[] = { name, word, run, (char *)l->id, option, l->db, NULL };
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigset_t none;
    for (int i = 1; i < NSIG; i++) sigaction(i, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int in = open("/dev/null", O_RDONLY),
              out = open(l->output, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0600); // no FIFO
    if (in >= 0 && out >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2) {
        for (int fd = 3; fd < 1024; fd++)
            if (fd != tell) close(fd);
        lower_priority(l);
        execve("/proc/self/exe", argv, l->environment);
    }
    give_up(tell);
}

// Forks twice, so that no process has to wait for the job. The pipe closes when exec succeeds;
// otherwise it delivers errno. The child's exit status would not be available if SIGCHLD is
// ignored.
static int launch(const struct launch *l, struct err *err)
{
    int tell[2], why = 0;
    if (pipe2(tell, O_CLOEXEC) < 0)
        return err_set(err, "cannot create a pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        const pid_t job = fork();
        if (job < 0) give_up(tell[1]);
        if (job == 0) exec_job(l, tell[1]);
        _exit(0);
    }
    if (child < 0) why = errno;
    close(tell[1]);
    if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
        while (read(tell[0], &why, sizeof why) < 0 && errno == EINTR) continue;
    }
    close(tell[0]);
    return why ? err_set(err, "cannot start a process for the job: %s", strerror(why)) : 0;
}

int job_spawn(const struct store *s, const struct job_row *row, struct err *err)
{
    struct launch l = { .nice = (int)settings_integer(row->settings, "job.nice") };
    if (job_folder_make(s, row->id, settings_text(row->settings, "job.folder"), err) < 0) return -1;
    l.db = realpath(s->path, NULL);
    l.output = job_path(s, row->id, "output");
    char *not_begun = job_path(s, row->id, "not-begun");
    unlink(not_begun);
    free(not_begun);
    snprintf(l.id, sizeof l.id, "%lld", (long long)row->id);
    snprintf(l.nice_text, sizeof l.nice_text, "%d", l.nice);
    // This program's environment with OMP_NUM_THREADS, which libgomp reads before main. The job
    // inherits the spin time of threads from the shell (tui/threads.c): if threads slept at once,
    // waking them would slow training by a fifth.
    size_t count = 0, kept = 0;
    if (!settings_is(row->settings, "job.threads", "auto"))
        l.threads = xasprintf("OMP_NUM_THREADS=%s", settings_text(row->settings, "job.threads"));
    while (environ[count]) count++;
    l.environment = xcalloc(count + 2, sizeof *l.environment);
    for (size_t i = 0; i < count; i++)
        if (!l.threads || strncmp(environ[i], "OMP_NUM_THREADS=", 16) != 0)
            l.environment[kept++] = environ[i];
    l.environment[kept] = l.threads;
    const int status =
        l.db ? launch(&l, err)
             : err_set(err, "the session database '%s' is gone: %s", s->path, strerror(errno));
    free(l.environment);
    free(l.threads);
    free(l.output);
    free(l.db);
    return status;
}
