#include "services/cli/bench/deployment.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "services/cli/client.h"

namespace baton::cli {
namespace {

constexpr auto kStartPatience = std::chrono::minutes(5);
constexpr auto kStopPatience = std::chrono::seconds(5);

}  // namespace

// A program whose log lines are read for what they tell.
class Deployment::Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(const std::string& program, const ProcessOptions& options,
                                                        std::vector<std::string> arguments) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    const std::string path = (self.parent_path() / program).string();
    if (error || access(path.c_str(), X_OK) != 0) return NotFound("%s is not beside this program", path);
    arguments.insert(arguments.begin(), path);
    arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (const int core : options.cores) CPU_SET(core, &cores);

    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable("no pipe for %s", program);
    const pid_t child = fork();
    if (child == 0) {  // only what is safe between fork and exec
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!options.cores.empty()) sched_setaffinity(0, sizeof(cores), &cores);
      const int null = open("/dev/null", O_RDWR);
      dup2(null, STDIN_FILENO);
      dup2(null, STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    if (child < 0) {
      close(ends[0]);
      return Unavailable("%s cannot be started", program);
    }
    return std::unique_ptr<Process>(new Process(program, child, ends[0]));
  }

  ~Process() {
    kill(child_, SIGTERM);
    for (const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
         waitpid(child_, nullptr, WNOHANG) == 0;) {
      if (std::chrono::steady_clock::now() > deadline) {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    reader_.join();
  }

  // The "port" of the first line with this message.
  absl::StatusOr<int> AwaitPort(const std::string& message) {
    std::unique_lock lock(mutex_);
    const auto said = [&] { return ended_ || ports_.contains(message); };
    if (!changed_.wait_for(lock, kStartPatience, said)) {
      return DeadlineExceeded("%s did not say '%s' in five minutes", program_, message);
    }
    if (!ports_.contains(message)) return Unavailable("%s has ended: %s", program_, last_line_);
    return ports_[message];
  }

 private:
  Process(std::string program, pid_t child, int log) : program_(std::move(program)), child_(child), log_(log) {
    reader_ = std::thread([this] { Read(); });
  }

  void Read() {
    FILE* lines = fdopen(log_, "r");
    char* line = nullptr;
    size_t capacity = 0;
    while (getline(&line, &capacity, lines) > 0) {
      const auto fields = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      const std::lock_guard lock(mutex_);
      last_line_ = line;
      if (fields.is_object() && fields.contains("message") && fields["message"].is_string()) {
        const std::string message = fields["message"];
        if (fields.contains("port") && fields["port"].is_number_integer()) {
          ports_.emplace(message, fields["port"].get<int>());
        }
      }
      changed_.notify_all();
    }
    free(line);
    fclose(lines);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  const std::string program_;
  const pid_t child_;
  const int log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> ports_;  // by message
  std::string last_line_;
  bool ended_ = false;
  std::thread reader_;
};

Deployment::Deployment() = default;

Deployment::~Deployment() {
  // The router first, so that it does not mourn its workers.
  while (!processes_.empty()) processes_.pop_back();
}

absl::StatusOr<std::unique_ptr<Deployment>> Deployment::Start(const DeploymentOptions& options) {
  std::unique_ptr<Deployment> deployment(new Deployment());
  std::vector<Process*> workers;
  const auto start_worker = [&](const std::string& program, const ProcessOptions& process) -> absl::Status {
    std::vector<std::string> arguments = {"--model",        options.model, "--port",          "0",
                                          "--metrics_port", "0",           "--grace_seconds", "0"};
    arguments.insert(arguments.end(), options.worker_flags.begin(), options.worker_flags.end());
    BATON_ASSIGN_OR_RETURN(auto started, Process::Start(program, process, std::move(arguments)));
    workers.push_back(started.get());
    deployment->processes_.push_back(std::move(started));
    return absl::OkStatus();
  };
  for (const ProcessOptions& process : options.prefill) BATON_RETURN_IF_ERROR(start_worker("baton-prefill", process));
  for (const ProcessOptions& process : options.decode) BATON_RETURN_IF_ERROR(start_worker("baton-decode", process));
  std::string addresses;
  for (Process* worker : workers) {
    BATON_ASSIGN_OR_RETURN(const int port, worker->AwaitPort("ready"));
    addresses += (addresses.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
  }
  BATON_ASSIGN_OR_RETURN(auto router, Process::Start("baton-router", options.router,
                                                     {"--port", "0", "--metrics_port", "0", "--grace_seconds", "0",
                                                      "--workers", addresses}));
  Process* const started = router.get();
  deployment->processes_.push_back(std::move(router));
  BATON_ASSIGN_OR_RETURN(const int port, started->AwaitPort("listening"));
  deployment->router_ = "127.0.0.1:" + std::to_string(port);

  ConnectionOptions connection;
  connection.router = deployment->router_;
  BATON_ASSIGN_OR_RETURN(const auto client, Client::Create(connection));
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    v1::ListModelsResponse models;
    if (client->ListModels(&models).ok() && models.models_size() == 1 && models.models(0).ready() &&
        models.models(0).prefill_workers() == options.prefill.size() &&
        models.models(0).decode_workers() == options.decode.size()) {
      return deployment;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return DeadlineExceeded("the router saw not all workers within five minutes");
}

}  // namespace baton::cli
