/*!
 * \file jumping_clock.cc
 * \brief Preloaded: the time of day jumps by hours, forward and back, as where a robot without a
 * clock of its own hears of the time late. JUMPING_CLOCK_SECONDS lie between two jumps, 0.02 where
 * it is not given. Clocks that only grow are as they are.
 *
 * Who waits until a time of day waits as long as it was told to by the clock of that moment: the
 * system's clock does not jump, and the deadline is one of its.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

namespace {

/*! \brief Seconds by which the clock is wrong, one after the other: up to tens of years. */
constexpr long kOffsets[] = {0, 5 * 3600, -7 * 3600, 30, 86400, -1500000000, -30, 300000000};
constexpr unsigned long kCount = sizeof(kOffsets) / sizeof(kOffsets[0]);

template <typename Call>
Call* Next(const char* name) {
  // The C library keeps an older form of some under the same name.
  void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return reinterpret_cast<Call*>(found != nullptr ? found : dlsym(RTLD_NEXT, name));
}

int Look(clockid_t clock, timespec* now) {
  static auto* look = Next<int(clockid_t, timespec*)>("clock_gettime");
  return look(clock, now);
}

long Offset() {
  static const char* given = std::getenv("JUMPING_CLOCK_SECONDS");
  static const double seconds = given == nullptr ? 0.02 : std::atof(given);
  timespec now;
  Look(CLOCK_MONOTONIC, &now);
  double since = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return kOffsets[static_cast<unsigned long>(since / seconds) % kCount];
}

timespec OfSystem(const timespec* until) { return {until->tv_sec - Offset(), until->tv_nsec}; }

/*! \brief Whether a condition's deadlines are of a clock that only grows, as the C library notes.
 */
bool OnlyGrows(const pthread_cond_t* condition) { return (condition->__data.__wrefs & 2) != 0; }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  int code = Look(clock, now);
  bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  if (code == 0 && of_day) now->tv_sec += Offset();
  return code;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec read;
  clock_gettime(CLOCK_REALTIME, &read);
  *now = {read.tv_sec, read.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec read;
  clock_gettime(CLOCK_REALTIME, &read);
  if (now != nullptr) *now = read.tv_sec;
  return read.tv_sec;
}

int timespec_get(timespec* now, int base) noexcept {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static auto* wait =
      Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  timespec then = OnlyGrows(condition) ? *until : OfSystem(until);
  return wait(condition, mutex, &then);
}

int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  static auto* lock = Next<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  timespec then = OfSystem(until);
  return lock(mutex, &then);
}

int sem_timedwait(sem_t* semaphore, const timespec* until) {
  static auto* wait = Next<int(sem_t*, const timespec*)>("sem_timedwait");
  timespec then = OfSystem(until);
  return wait(semaphore, &then);
}
}
