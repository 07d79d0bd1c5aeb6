#include "common/base/dynamic_library.h"

#include <dlfcn.h>

namespace baton {

DynamicLibrary::DynamicLibrary(const std::string& name, const std::string& folder) {
  for (const std::string& path : {name, folder + "/" + name}) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
  }
}

void* DynamicLibrary::Address(const char* symbol) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, symbol);
}

}  // namespace baton
