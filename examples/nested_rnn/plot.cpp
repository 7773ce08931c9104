// SPDX-License-Identifier: Apache-2.0
#include "plot.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

void write_plot(const std::filesystem::path& file, const std::vector<Epoch>& epochs, double baseline) {
  constexpr double left = 64, top = 30, width = 440, height = 220, bottom = top + height, right = left + width;
  double greatest = 0;
  for (const Epoch& epoch : epochs) greatest = std::max(greatest, epoch.loss);
  const double steps = static_cast<double>(std::max<std::size_t>(epochs.size() - 1, 1));
  const auto x = [&](std::size_t i) { return left + width * static_cast<double>(i) / steps; };
  const auto y = [&](double share) { return bottom - height * share; };

  std::ofstream out(file);
  const auto text = [&](double at_x, double at_y, const char* rest, const auto& words) {
    out << "<text x=\"" << at_x << "\" y=\"" << at_y << "\" " << rest << ">" << words << "</text>\n";
  };
  // Upwards, around its own place.
  const auto upright = [&](double at_x, double at_y, const char* words) {
    out << "<text transform=\"translate(" << at_x << ' ' << at_y << ") rotate(-90)\" text-anchor=\"middle\">" << words
        << "</text>\n";
  };
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"310\" font-family=\"sans-serif\" "
         "font-size=\"12\">\n<rect width=\"680\" height=\"310\" fill=\"white\"/>\n";
  for (int tick = 0; tick <= 4; ++tick) {
    const double share = tick / 4.0;
    out << "<line x1=\"" << left << "\" x2=\"" << right << "\" y1=\"" << y(share) << "\" y2=\"" << y(share)
        << "\" stroke=\"#ddd\"/>\n";
    text(left - 8, y(share) + 4, "text-anchor=\"end\"", std::to_string(static_cast<int>(100 * share)) + "%");
    char loss[16];
    std::snprintf(loss, sizeof loss, "%.2f", share * greatest);
    text(right + 8, y(share) + 4, "fill=\"#2ca02c\"", loss);
  }
  // At most ten epochs have their number, the first and the last among them.
  const std::size_t between = (epochs.size() + 8) / 9;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const bool is_last = i + 1 == epochs.size();
    if (!is_last && (i % between != 0 || i + between >= epochs.size())) continue;
    text(x(i), bottom + 18, "text-anchor=\"middle\"", i + 1);
  }
  text(left + width / 2, bottom + 40, "text-anchor=\"middle\"", "epoch");
  upright(left - 48, top + height / 2, "sections whose document is found");
  upright(right + 52, top + height / 2, "loss");
  double label = top + 20;
  const auto curve = [&](const char* name, const char* colour, const auto& share) {
    out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (std::size_t i = 0; i < epochs.size(); ++i) out << x(i) << ',' << y(share(epochs[i])) << ' ';
    out << "\"/>\n<text x=\"" << right + 64 << "\" y=\"" << label << "\" fill=\"" << colour << "\">" << name
        << "</text>\n";
    label += 18;
  };
  curve("training", "#1f77b4", [](const Epoch& epoch) { return epoch.training_accuracy; });
  curve("held out", "#d62728", [](const Epoch& epoch) { return epoch.held_out_accuracy; });
  curve("always the largest", "#888", [&](const Epoch&) { return baseline; });
  curve("loss, on the right", "#2ca02c", [&](const Epoch& epoch) { return greatest > 0 ? epoch.loss / greatest : 0; });
  out << "</svg>\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}
