// Lets ThreadSanitizer see Abseil's locks. The distribution's libabsl is built without it, so every absl::Mutex would
// be invisible and each guarded access a reported race. These definitions come before the library's, tell the sanitizer
// what happens, and call them. Linked into everything in the tsan preset, into nothing else.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

// Later versions inline some of these; there the locks stay invisible until somebody extends this.
#if ABSL_LTS_RELEASE_VERSION <= 20220623

#define BATON_STRING_INNER(text) #text
#define BATON_STRING(text) BATON_STRING_INNER(text)

namespace {

// The library's function. `rest` is its mangled name after absl's inline namespace, with K in front of a const
// method's.
template <typename Function>
Function* Real(const char* rest) {
  const bool is_const = rest[0] == 'K';
  const std::string inline_namespace = BATON_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name = (is_const ? "_ZNK4absl" : "_ZN4absl") + std::to_string(inline_namespace.size()) +
                           inline_namespace + (is_const ? rest + 1 : rest);
  void* const found = dlsym(RTLD_NEXT, name.c_str());
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

// Abseil's functions call each other; only the outermost call is the program's.
thread_local int depth = 0;

class Call {
 public:
  Call() : outermost_(depth++ == 0) {}
  ~Call() { --depth; }
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

// The sanitizer ignores the thread's accesses between pre and post: conditions of waiters are evaluated there.
template <typename Body>
auto Acquiring(void* mutex, unsigned flags, const Body& body) {
  struct Scope : Call {
    void* mutex;
    unsigned flags;
    Scope(void* m, unsigned f) : mutex(m), flags(f) {
      if (outermost()) __tsan_mutex_pre_lock(mutex, flags);
    }
    ~Scope() {
      if (outermost()) __tsan_mutex_post_lock(mutex, flags, 0);
    }
  } scope(mutex, flags);
  return body();
}

template <typename Body>
auto Releasing(void* mutex, unsigned flags, const Body& body) {
  struct Scope : Call {
    void* mutex;
    unsigned flags;
    Scope(void* m, unsigned f) : mutex(m), flags(f) {
      if (outermost()) __tsan_mutex_pre_unlock(mutex, flags);
    }
    ~Scope() {
      if (outermost()) __tsan_mutex_post_unlock(mutex, flags);
    }
  } scope(mutex, flags);
  return body();
}

// A wait gives the lock up and takes it again.
template <typename Body>
auto Waiting(void* mutex, const Body& body) {
  struct Scope : Call {
    void* mutex;
    explicit Scope(void* m) : mutex(m) {
      if (outermost()) __tsan_mutex_pre_unlock(mutex, 0);
    }
    ~Scope() {
      if (!outermost()) return;
      __tsan_mutex_post_unlock(mutex, 0);
      __tsan_mutex_pre_lock(mutex, 0);
      __tsan_mutex_post_lock(mutex, 0, 0);
    }
  } scope(mutex);
  return body();
}

bool Trying(void* mutex, unsigned flags, bool (*real)(absl::Mutex*)) {
  const Call call;
  if (call.outermost()) __tsan_mutex_pre_lock(mutex, flags | __tsan_mutex_try_lock);
  const bool locked = real(static_cast<absl::Mutex*>(mutex));
  if (call.outermost()) {
    __tsan_mutex_post_lock(mutex, flags | __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed), 0);
  }
  return locked;
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static const auto real = Real<void(Mutex*)>("5MutexD1Ev");
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
  real(this);
}
void Mutex::Lock() {
  static const auto real = Real<void(Mutex*)>("5Mutex4LockEv");
  Acquiring(this, 0, [&] { real(this); });
}
void Mutex::Unlock() {
  static const auto real = Real<void(Mutex*)>("5Mutex6UnlockEv");
  Releasing(this, 0, [&] { real(this); });
}
bool Mutex::TryLock() {
  static const auto real = Real<bool(Mutex*)>("5Mutex7TryLockEv");
  return Trying(this, 0, real);
}
void Mutex::ReaderLock() {
  static const auto real = Real<void(Mutex*)>("5Mutex10ReaderLockEv");
  Acquiring(this, __tsan_mutex_read_lock, [&] { real(this); });
}
void Mutex::ReaderUnlock() {
  static const auto real = Real<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  Releasing(this, __tsan_mutex_read_lock, [&] { real(this); });
}
bool Mutex::ReaderTryLock() {
  static const auto real = Real<bool(Mutex*)>("5Mutex13ReaderTryLockEv");
  return Trying(this, __tsan_mutex_read_lock, real);
}
void Mutex::LockWhen(const Condition& condition) {
  static const auto real = Real<void(Mutex*, const Condition&)>("5Mutex8LockWhenERKNS0_9ConditionE");
  Acquiring(this, 0, [&] { real(this, condition); });
}
bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static const auto real =
      Real<bool(Mutex*, const Condition&, Duration)>("5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  return Acquiring(this, 0, [&] { return real(this, condition, timeout); });
}
bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto real =
      Real<bool(Mutex*, const Condition&, Time)>("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  return Acquiring(this, 0, [&] { return real(this, condition, deadline); });
}
void Mutex::Await(const Condition& condition) {
  static const auto real = Real<void(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  Waiting(this, [&] { real(this, condition); });
}
bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto real =
      Real<bool(Mutex*, const Condition&, Duration)>("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  return Waiting(this, [&] { return real(this, condition, timeout); });
}
bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto real =
      Real<bool(Mutex*, const Condition&, Time)>("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  return Waiting(this, [&] { return real(this, condition, deadline); });
}

void CondVar::Wait(Mutex* mutex) {
  static const auto real = Real<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  Waiting(mutex, [&] { real(this, mutex); });
}
bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto real =
      Real<bool(CondVar*, Mutex*, Duration)>("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  return Waiting(mutex, [&] { return real(this, mutex, timeout); });
}
bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto real = Real<bool(CondVar*, Mutex*, Time)>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  return Waiting(mutex, [&] { return real(this, mutex, deadline); });
}

void Notification::Notify() {
  static const auto real = Real<void(Notification*)>("12Notification6NotifyEv");
  __tsan_release(this);
  real(this);
}
void Notification::WaitForNotification() const {
  static const auto real = Real<void(const Notification*)>("K12Notification19WaitForNotificationEv");
  real(this);
  __tsan_acquire(const_cast<Notification*>(this));
}
bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto real =
      Real<bool(const Notification*, Duration)>("K12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

#endif
