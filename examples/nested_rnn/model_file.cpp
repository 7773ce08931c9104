// SPDX-License-Identifier: Apache-2.0
#include "model_file.hpp"

#include <lod/desc.hpp>
#include <lod/proto.hpp>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

void save(const std::filesystem::path& file, Network<float>& network) {
  std::ofstream out(file, std::ios::binary);
  for (const auto& [name, tensor] : network.parameters()) {
    lod::VarDesc description = lod::describe(name, *tensor);
    description.persistable = true;
    const std::string bytes = lod::encode(description);
    const std::uint64_t length = bytes.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out.write(bytes.data(), static_cast<std::streamsize>(length));
    out.write(reinterpret_cast<const char*>(tensor->data()),
              static_cast<std::streamsize>(tensor->values().size_bytes()));
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

void load(const std::filesystem::path& file, Network<float>& network) {
  std::ifstream in(file, std::ios::binary);
  const std::uintmax_t size = std::filesystem::file_size(file);
  const auto read = [&](void* to, std::uint64_t length) {
    in.read(static_cast<char*>(to), static_cast<std::streamsize>(length));
    if (!in) throw std::runtime_error(file.string() + " ends early");
  };
  for (const auto& [name, tensor] : network.parameters()) {
    std::uint64_t length = 0;
    read(&length, sizeof length);
    if (length > size) throw std::runtime_error(file.string() + " is no model");
    std::string bytes(length, '\0');
    read(bytes.data(), length);
    const auto description = lod::decode<lod::VarDesc>(bytes);
    if (description.name != name || !description.type.lod_tensor) {
      throw std::runtime_error(file.string() + " has " + description.name + ", expected the tensor " + name);
    }
    lod::check(*tensor, *description.type.lod_tensor);
    read(tensor->data(), tensor->values().size_bytes());
  }
}
