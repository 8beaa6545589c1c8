// The Python binding: checks arrays, releases the GIL, calls the batch.
#include <pybind11/gil_safe_call_once.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "batch.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace {

using Shape = std::span<const py::ssize_t>;

std::string quoted(const char* name) {
  return std::string("`") + name + "`";
}

std::string shape_text(Shape shape) {
  std::string text = "(";
  for (const py::ssize_t length : shape) {
    text += std::to_string(length) + (shape.size() == 1 ? ",)" : ", ");
  }
  if (shape.size() != 1) {
    text.replace(text.size() - 2, 2, ")");
  }
  return text;
}

py::dtype make_scenario_dtype() {
  py::list names;
  py::list formats;
  py::list offsets;
  for (const edt::Field& field : edt::scenario_fields()) {
    const std::string rows = field.rows > 1 ? std::to_string(field.rows) + "," : "";
    const bool scalar = field.rows == 1 && field.columns == 1;
    names.append(field.name);
    formats.append(scalar ? "f8" : "(" + rows + std::to_string(field.columns) + ",)f8");
    offsets.append(field.offset);
  }
  return py::dtype(names, formats, offsets, static_cast<py::ssize_t>(sizeof(edt::Scenario)));
}

// Made once, because that takes longer than many a reset.
const py::dtype& scenario_dtype() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::dtype> stored;
  return stored.call_once_and_store_result(make_scenario_dtype).get_stored();
}

// The array behind `object` after checking that it is one the simulation may use as it lies. Small batches step in
// about a microsecond, so nothing is allocated unless something is wrong.
py::array checked(const py::object& object, const char* name, const py::dtype& dtype, Shape shape) {
  if (!py::isinstance<py::array>(object)) {
    throw py::type_error(quoted(name) + " must be a NumPy array, not " +
                         std::string(py::str(py::type::of(object).attr("__name__"))));
  }
  auto array = py::reinterpret_borrow<py::array>(object);
  const py::dtype held = array.dtype();
  if (!held.is(dtype) && !held.equal(dtype)) {
    throw py::type_error(quoted(name) + " has dtype " + std::string(py::str(held)) + ", must have " +
                         std::string(py::str(dtype)));
  }
  const Shape actual(array.shape(), static_cast<std::size_t>(array.ndim()));
  if (!std::equal(actual.begin(), actual.end(), shape.begin(), shape.end())) {
    throw py::value_error(quoted(name) + " has shape " + shape_text(actual) + ", must have " + shape_text(shape));
  }
  if ((array.flags() & py::array::c_style) == 0) {
    throw py::value_error(quoted(name) + " must be C-contiguous");
  }
  return array;
}

template <typename T>
std::span<const T> required_input(const py::object& object, const char* name, Shape shape) {
  const py::array array = checked(object, name, py::dtype::of<T>(), shape);
  return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

std::span<double> required_output(const py::object& object, const char* name, Shape shape) {
  py::array array = checked(object, name, py::dtype::of<double>(), shape);
  if (!array.writeable()) {
    throw py::value_error(quoted(name) + " must be writeable");
  }
  return {static_cast<double*>(array.mutable_data()), static_cast<std::size_t>(array.size())};
}

// Nothing is written where the caller gave None.
std::span<double> output(const py::object& object, const char* name, Shape shape) {
  return object.is_none() ? std::span<double>() : required_output(object, name, shape);
}

// A mask is [environments] of bool; NumPy keeps a bool as one byte, 0 or 1.
std::span<const std::uint8_t> mask_input(const py::object& object, py::ssize_t environments) {
  if (object.is_none()) {
    return {};
  }
  const std::array<py::ssize_t, 1> shape{environments};
  const auto mask = required_input<bool>(object, "mask", shape);
  return {reinterpret_cast<const std::uint8_t*>(mask.data()), mask.size()};
}

std::vector<edt::Scenario> scenario_input(const py::object& object, std::optional<py::ssize_t> environments) {
  const bool counts = py::isinstance<py::array>(object) && object.attr("ndim").cast<int>() == 1;
  const std::array<py::ssize_t, 1> shape{
      environments.value_or(counts ? py::cast<py::ssize_t>(object.attr("size")) : 0)};
  const py::array array = checked(object, "scenarios", scenario_dtype(), shape);
  std::vector<edt::Scenario> scenarios(static_cast<std::size_t>(array.size()));
  if (!scenarios.empty()) {
    std::memcpy(scenarios.data(), array.data(), scenarios.size() * sizeof(edt::Scenario));
  }
  for (std::size_t index = 0; index < scenarios.size(); ++index) {
    if (const auto text = edt::fault(scenarios[index])) {
      throw py::value_error("scenario " + std::to_string(index) + ": " + *text);
    }
  }
  return scenarios;
}

edt::Model model_input(const std::string& model) {
  if (model == "fluid") {
    return edt::Model::fluid;
  }
  if (model == "events") {
    return edt::Model::events;
  }
  throw py::value_error("`model` is \"" + model + "\", must be \"fluid\" or \"events\"");
}

int whole_input(int value, const std::string& name, int low, int high) {
  if (value < low || value > high) {
    throw py::value_error("`" + name + "` is " + std::to_string(value) + ", must be from " + std::to_string(low) +
                          " to " + std::to_string(high));
  }
  return value;
}

std::unique_ptr<edt::Batch> make_batch(const py::object& scenario_array, const std::string& model, int stages,
                                       std::uint64_t seed, std::optional<int> threads, int agents) {
  const std::vector<edt::Scenario> scenarios = scenario_input(scenario_array, std::nullopt);
  if (scenarios.empty()) {
    throw py::value_error("`scenarios` is empty, must hold at least one");
  }
  if (stages != 1 && stages != edt::stage_count) {
    throw py::value_error("`stages` is " + std::to_string(stages) + ", must be 1 or 3");
  }
  whole_input(agents, "agents", 1, 1024);
  if (scenarios.size() % static_cast<std::size_t>(agents) != 0) {
    throw py::value_error("`scenarios` holds " + std::to_string(scenarios.size()) +
                          ", must be a multiple of `agents`, " + std::to_string(agents));
  }
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 256);
  const int members = whole_input(threads.value_or(cores), "threads", 1, 256);
  return std::make_unique<edt::Batch>(scenarios, edt::BatchOptions{model_input(model), stages, seed, members, agents});
}

std::array<py::ssize_t, 2> rows(const edt::Batch& batch, int columns) {
  return {batch.environments(), columns};
}

void step(edt::Batch& batch, const py::object& actions, const py::object& observations, const py::object& metrics,
          const py::object& mask) {
  const int stages = batch.options().stages;
  const auto action_span = required_input<std::int32_t>(actions, "actions", rows(batch, stages));
  const auto observation_span = output(observations, "out_observations", rows(batch, edt::observation_size(stages)));
  const auto metric_span = output(metrics, "out_metrics", rows(batch, edt::metrics_size(stages)));
  const auto mask_span = mask_input(mask, batch.environments());
  const py::gil_scoped_release released;
  batch.step(action_span, observation_span, metric_span, mask_span);
}

void reset(edt::Batch& batch, const py::object& mask, const py::object& scenario_array) {
  const auto mask_span = mask_input(mask, batch.environments());
  std::vector<edt::Scenario> scenarios;
  if (!scenario_array.is_none()) {
    scenarios = scenario_input(scenario_array, batch.environments());
  }
  const py::gil_scoped_release released;
  batch.reset(mask_span, scenarios);
}

void observe(edt::Batch& batch, const py::object& observations) {
  const auto span =
      required_output(observations, "out_observations", rows(batch, edt::observation_size(batch.options().stages)));
  const py::gil_scoped_release released;
  batch.observe(span);
}

void account(edt::Batch& batch, const py::object& accounts) {
  const auto span = required_output(accounts, "out_account", rows(batch, edt::account_size));
  const py::gil_scoped_release released;
  batch.account(span);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.attr("SCENARIO_DTYPE") = scenario_dtype();
  py::class_<edt::Batch>(module, "Batch")
      .def(py::init(&make_batch), "scenarios"_a, py::kw_only(), "model"_a = "fluid", "stages"_a = 1, "seed"_a = 0,
           "threads"_a = py::none(), "agents"_a = 1)
      .def("__len__", &edt::Batch::environments)
      .def_property_readonly("stages", [](const edt::Batch& batch) { return batch.options().stages; })
      .def_property_readonly("agents", [](const edt::Batch& batch) { return batch.options().agents; })
      .def_property_readonly("threads", [](const edt::Batch& batch) { return batch.options().threads; })
      .def_property_readonly(
          "model",
          [](const edt::Batch& batch) { return batch.options().model == edt::Model::fluid ? "fluid" : "events"; })
      .def("step", &step, "actions"_a, "out_observations"_a, "out_metrics"_a = py::none(), "mask"_a = py::none())
      .def("reset", &reset, "mask"_a = py::none(), "scenarios"_a = py::none())
      .def("reseed", &edt::Batch::reseed, "seed"_a, py::call_guard<py::gil_scoped_release>())
      .def("observe", &observe, "out_observations"_a)
      .def("account", &account, "out_account"_a);
}
