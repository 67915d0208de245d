"""Reads networks of the SONATA format: HDF5 files of nodes and edges, CSV files of their types, JSON configurations."""

import csv
import dataclasses
import json
import os
import pathlib

import numpy as np

# NEST's models that Betz has: their parameters with NEST's defaults.
_LIF = {"E_L": -70.0, "C_m": 250.0, "tau_m": 10.0, "t_ref": 2.0, "V_th": -55.0, "V_reset": -70.0, "I_e": 0.0, "V_m": -70.0}
_CURRENTS = {**_LIF, "tau_syn_ex": 2.0, "tau_syn_in": 2.0}
_CONDUCTANCES = {"E_ex": 0.0, "E_in": -85.0, "tau_syn_ex": 0.2, "tau_syn_in": 2.0}
_MODELS = {
    "iaf_psc_exp": _CURRENTS,
    "iaf_psc_alpha": _CURRENTS,
    "iaf_psc_delta": _LIF,
    "iaf_cond_exp": {
        **_CONDUCTANCES,
        "E_L": -70.0,
        "C_m": 250.0,
        "g_L": 16.6667,
        "t_ref": 2.0,
        "V_th": -55.0,
        "V_reset": -60.0,
        "I_e": 0.0,
        "V_m": -70.0,
    },
    "aeif_cond_exp": {
        **_CONDUCTANCES,
        "E_L": -70.6,
        "C_m": 281.0,
        "g_L": 30.0,
        "t_ref": 0.0,
        "V_th": -50.4,
        "V_reset": -60.0,
        "V_peak": 0.0,
        "Delta_T": 2.0,
        "tau_w": 144.0,
        "a": 4.0,
        "b": 80.5,
        "I_e": 0.0,
        "V_m": -70.6,
    },
    "izhikevich": {"a": 0.02, "b": 0.2, "c": -65.0, "d": 8.0, "V_th": 30.0, "I_e": 0.0, "V_m": -65.0, "U_m": -13.0},
}
# Parameters of synapses, which all neurons of one population share.
_SHARED = ("tau_syn_ex", "tau_syn_in", "E_ex", "E_in")
# Models that are integrated exactly if all neurons of a population are alike.
_EXACT = ("iaf_psc_exp", "iaf_psc_delta")
# Most kinds of neurons that become populations of their own so that they stay exact.
_MOST_KINDS = 16
# Names of synapses with constant weights.
_SYNAPSES = ("static_synapse", "nest:static_synapse", "NULL", "")


@dataclasses.dataclass
class SonataNetwork:
    """A network that was read: `network` builds it; `neurons` has the engine's neuron of each node, by population."""

    network: "object"
    neurons: dict
    milliseconds: "float | None"

    def __repr__(self):
        nodes = {name: len(numbers) for name, numbers in self.neurons.items()}
        return f"SonataNetwork({nodes}, {self.milliseconds} ms)"


class _Reader:
    def __init__(self, path, step_ms, seed):
        from .spiking import Network

        try:
            import h5py
        except ImportError as error:
            raise ImportError("reading SONATA needs h5py: pip install h5py") from error
        self.hdf5 = h5py
        self.path = pathlib.Path(os.fspath(path))
        self.simulation = circuit = self.config(self.path)
        if isinstance(circuit.get("simulation"), str):
            # A file that only names the two others.
            self.simulation = {**self.config(pathlib.Path(circuit["simulation"])), "network": circuit.get("network")}
            circuit = self.simulation
        if isinstance(circuit.get("network"), str):
            circuit = self.config(pathlib.Path(circuit["network"]))
        self.circuit = circuit
        if "networks" not in circuit:
            raise ValueError(f"{self.path}: expected \"networks\", or \"network\" with the circuit's file, got {sorted(circuit)}")
        run = self.simulation.get("run", {})
        self.step_ms = float(step_ms or run.get("dt", 0.1))
        self.milliseconds = float(run["tstop"]) if "tstop" in run else None
        self.network = Network(step_ms=self.step_ms, seed=seed)
        self.nodes = {}  # Population: identifiers in order, and the place of each in `parts`.

    # ---- Configuration ----

    def config(self, path):
        """A JSON file, with the variables of its manifest put in, and paths relative to its folder."""
        text = path.read_text(encoding="utf-8")
        try:
            read = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: expected JSON, got {error}") from error
        folder = path.resolve().parent
        manifest = {"${configdir}": str(folder), "$configdir": str(folder)}
        manifest.update(read.get("manifest", {}))

        def resolve(value):
            for _ in range(10):
                names = [name for name in sorted(manifest, key=len, reverse=True) if name in value]
                if not names:
                    break
                for name in names:
                    value = value.replace(name, manifest[name])
            if value.startswith("$"):
                raise ValueError(f"{path}: the manifest has no variable of {value!r}")
            return value

        def walk(value, key=""):
            if isinstance(value, dict):
                return {k: walk(v, k) for k, v in value.items()}
            if isinstance(value, list):
                return [walk(v, key) for v in value]
            if not isinstance(value, str):
                return value
            resolved = resolve(value)
            is_path = key.endswith(("_file", "_dir")) or key in ("network", "simulation")
            return str(folder / resolved) if is_path and resolved not in ("", "NULL") else resolved

        return {k: walk(v, k) for k, v in read.items() if k != "manifest"}

    def enabled(self, kind):
        """Files of nodes or edges that are not switched off."""
        return [files for files in self.circuit["networks"].get(kind, []) if files.get("enabled", True)]

    def node_set(self, name):
        """The population that a node set names."""
        sets = self.simulation.get("node_sets_file") or self.circuit.get("node_sets_file")
        if isinstance(name, str) and sets and pathlib.Path(sets).exists():
            name = json.loads(pathlib.Path(sets).read_text(encoding="utf-8")).get(name, name)
        if isinstance(name, dict):
            if "population" in name and len(name) > 1:
                raise ValueError(f"node set: expected a population alone, got {sorted(name)}")
            return name.get("population")
        return name

    def types(self, path, key):
        """Rows of a file of types, by number."""
        if path in (None, "", "NULL"):
            return {}
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter=" ", skipinitialspace=True))
        if not rows or key not in rows[0]:
            raise ValueError(f"{path}: expected a header with {key}, separated by spaces")
        kept = [{k: v for k, v in row.items() if k and v not in (None, "", "NULL")} for row in rows]
        return {int(row[key]): row for row in kept}

    def dynamics(self, row, folder, place):
        """Parameters that the file of a type's `dynamics_params` holds."""
        given = row.get("dynamics_params")
        if given is None:
            return {}
        if given.lstrip().startswith("{"):
            return json.loads(given)
        if folder is None:
            raise ValueError(f"{place}: dynamics_params is {given!r}, and the configuration has no folder for it")
        return json.loads((pathlib.Path(folder) / given).read_text(encoding="utf-8"))

    def table(self, group, key, types, place):
        """Attributes of each node or edge: a list of dictionaries of the types, and arrays of what differs."""
        kinds = np.asarray(group[f"{key}_type_id"]).astype(int)
        unknown = sorted(set(kinds.tolist()) - set(types))
        if unknown:
            raise ValueError(f"{place}: {key}_type_id {unknown[0]} is not in the file of types")
        count = len(kinds)
        own = {}
        groups = np.asarray(group[f"{key}_group_id"]).astype(int) if f"{key}_group_id" in group else np.zeros(count, int)
        indices = np.asarray(group[f"{key}_group_index"]).astype(int) if f"{key}_group_index" in group else np.arange(count)
        for number in np.unique(groups):
            if str(number) not in group:
                continue
            members = groups == number
            sub = group[str(number)]
            sets = {name: data for name, data in sub.items() if isinstance(data, self.hdf5.Dataset)}
            if "dynamics_params" in sub:
                sets.update({f"dynamics_params/{name}": data for name, data in sub["dynamics_params"].items()})
            for name, data in sets.items():
                values = np.asarray(data)
                if not np.issubdtype(values.dtype, np.number) or values.ndim != 1:
                    continue
                column = own.setdefault(name, np.full(count, np.nan))
                column[members] = values[indices[members]]
        return kinds, own

    # ---- Nodes ----

    def read_nodes(self):
        folder = self.circuit.get("components", {}).get("point_neuron_models_dir")
        for files in self.enabled("nodes"):
            types = self.types(files.get("node_types_file"), "node_type_id")
            with self.hdf5.File(files["nodes_file"], "r") as file:
                for name, group in file["nodes"].items():
                    self.add_nodes(name, group, types, folder, files["nodes_file"])

    def add_nodes(self, name, group, types, folder, path):
        place = f"{path}: nodes of {name}"
        if name in self.nodes:
            raise ValueError(f"{place}: the population is given twice")
        kinds, own = self.table(group, "node", types, place)
        ids = np.asarray(group["node_id"]).astype(int) if "node_id" in group else np.arange(len(kinds))
        part, index = np.zeros(len(ids), int), np.zeros(len(ids), int)
        parts = []
        for kind in np.unique(kinds):
            members = (kinds == kind).nonzero()[0]
            row = types[int(kind)]
            where = f"{place}, type {kind}"
            if row.get("model_type") == "virtual":
                part[members], index[members] = len(parts), np.arange(len(members))
                parts.append({"virtual": True, "ids": ids[members], "name": f"{name}.{kind}"})
                continue
            model, given = self.model(row, folder, where)
            differing = sorted(n for n in own if n.startswith("dynamics_params/") and not np.isnan(own[n][members]).all())
            for column in differing:
                self.known(model, [column.split("/")[1]], where)
            usual = {**_MODELS[model], **given}
            columns = {column.split("/")[1]: own[column][members] for column in differing}
            columns = {n: np.where(np.isnan(values), usual[n], values) for n, values in columns.items()}
            # A population for each kind of neurons, or for each kind of synapses with a list of the neurons' own values.
            apart = sorted(columns)
            distinct, which = self.kinds_of(columns, apart, len(members))
            if model != "iaf_psc_alpha" and not (model in _EXACT and len(distinct) <= _MOST_KINDS):
                apart = [n for n in apart if n in _SHARED]
                distinct, which = self.kinds_of(columns, apart, len(members))
            for number in range(len(distinct)):
                mine_are = which.reshape(-1) == number
                chosen = members[mine_are]
                mine = {n: columns[n][mine_are] for n in columns}
                mine = {n: float(v[0]) if (v == v[0]).all() else v for n, v in mine.items()}
                part[chosen], index[chosen] = len(parts), np.arange(len(chosen))
                label = f"{name}.{kind}" if len(distinct) == 1 else f"{name}.{kind}.{number}"
                parts.append({"virtual": False, "model": model, "given": {**given, **mine}, "size": len(chosen), "name": label})
        self.nodes[name] = {"ids": ids, "part": part, "index": index, "parts": parts}

    @staticmethod
    def kinds_of(columns, names, count):
        """Distinct rows of some columns, and the row of each member."""
        rows = np.stack([columns[name] for name in names], axis=1) if names else np.zeros((count, 0))
        return np.unique(rows, axis=0, return_inverse=True)

    def model(self, row, folder, where):
        kind, template = row.get("model_type"), row.get("model_template", "")
        if kind not in ("point_neuron", "point_process"):
            raise ValueError(f"{where}: expected a model_type of point_neuron or virtual, got {kind!r}: Betz has no such neuron")
        simulator, _, name = template.rpartition(":")
        if simulator not in ("nest", "") or name not in _MODELS:
            names = ", ".join(f"nest:{n}" for n in _MODELS)
            raise ValueError(f"{where}: expected a model_template of {names}, got {template!r}")
        given = self.dynamics(row, folder, where)
        self.known(name, given, where)
        return name, given

    @staticmethod
    def known(model, names, where):
        for name in names:
            if name not in _MODELS[model]:
                raise ValueError(f"{where}: expected parameters of {model}, {', '.join(_MODELS[model])}, got {name!r}")

    def silence(self, ms):
        """A refractory time in whole steps."""
        return np.round(np.asarray(ms) / self.step_ms) * self.step_ms

    def add_part(self, part):
        """Adds a population to the network."""
        model = part["model"]
        p = {**_MODELS[model], **part["given"]}
        self.check_start(model, p, part["name"])
        common = {"start_mv": p["V_m"], "current_pa": p["I_e"]}
        if model == "izhikevich":
            return self.network.population(
                part["name"],
                part["size"],
                "izhikevich",
                synapse="delta",
                a=p["a"],
                b=p["b"],
                c_mv=p["c"],
                d=p["d"],
                peak_mv=p["V_th"],
                **common,
            )
        if model.endswith("cond_exp"):
            synapse = {
                "conductance": {
                    "channels": {
                        "ampa": {"tau_decay_ms": p["tau_syn_ex"], "reversal_mv": p["E_ex"]},
                        "gaba_a": {"tau_decay_ms": p["tau_syn_in"], "reversal_mv": p["E_in"]},
                    }
                }
            }
        elif model == "iaf_psc_delta":
            synapse = "delta"
        else:
            shape = "exponential" if model == "iaf_psc_exp" else "alpha"
            synapse = {shape: {"tau_ms": p["tau_syn_ex"], "tau_inhibitory_ms": p["tau_syn_in"]}}
        shared = {
            "c_m_pf": p["C_m"],
            "rest_mv": p["E_L"],
            "threshold_mv": p["V_th"],
            "reset_mv": p["V_reset"],
            "refractory_ms": self.silence(p["t_ref"]),
            **common,
        }
        if model == "aeif_cond_exp":
            return self.network.population(
                part["name"],
                part["size"],
                "adex",
                synapse=synapse,
                leak_ns=p["g_L"],
                slope_mv=p["Delta_T"],
                tau_w_ms=p["tau_w"],
                a_ns=p["a"],
                b_pa=p["b"],
                peak_mv=p["V_peak"],
                **shared,
            )
        tau = p["C_m"] / p["g_L"] if "g_L" in p else p["tau_m"]
        return self.network.population(part["name"], part["size"], "lif", synapse=synapse, tau_m_ms=tau, **shared)

    @staticmethod
    def check_start(model, p, name):
        """Refuses states that Betz does not start with."""
        if model == "izhikevich":
            got, wanted = np.broadcast_arrays(*np.atleast_1d(p["U_m"], np.multiply(p["b"], p["V_m"])))
            for u, steady in zip(got, wanted, strict=True):
                if abs(u - steady) > 1e-9:
                    raise ValueError(f"{name}: Betz starts U_m at b V_m = {steady:g}, got {u:g}; set U_m")
        if model == "aeif_cond_exp":
            for a, v, rest in zip(*np.broadcast_arrays(*np.atleast_1d(p["a"], p["V_m"], p["E_L"])), strict=True):
                if a * (v - rest) != 0.0:
                    raise ValueError(
                        f"{name}: Betz starts w at a (V_m - E_L), NEST at 0: expected V_m = E_L, got {v:g} and {rest:g} mV"
                    )

    # ---- Spikes of virtual nodes ----

    def read_inputs(self):
        """Times of spikes in ms by population and node."""
        trains = {}
        for name, given in self.simulation.get("inputs", {}).items():
            place = f"{self.path}: input {name}"
            if not given.get("enabled", True):
                continue
            kind, module = given.get("input_type"), given.get("module")
            if kind != "spikes" or module not in ("sonata", "h5", "csv"):
                raise ValueError(f"{place}: expected spikes of module sonata, h5 or csv, got {kind!r} of {module!r}")
            nodes = self.node_set(given.get("node_set"))
            listed = list(self.spikes(given["input_file"], module, nodes, place))
            if nodes in self.nodes:
                listed = [part for part in listed if part[0] == nodes]
            elif nodes is not None and len(listed) > 1:
                named = [part[0] for part in listed]
                raise ValueError(f"{place}: expected a node set that names one of the populations {named}, got {nodes!r}")
            for population, ids, times in listed:
                if population not in self.nodes:
                    raise ValueError(f"{place}: expected a population of {sorted(self.nodes)}, got {population!r}")
                of = trains.setdefault(population, {})
                for node, time in zip(ids.tolist(), times.tolist(), strict=True):
                    of.setdefault(node, []).append(time)
        return trains

    def spikes(self, path, module, nodes, place):
        if module == "csv":
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, delimiter=" "))
            if rows and not {"timestamps", "node_ids"} <= set(rows[0]):
                raise ValueError(f"{path}: expected columns timestamps, population and node_ids, got {sorted(rows[0])}")
            for population in sorted({row.get("population", nodes) for row in rows}):
                mine = [row for row in rows if row.get("population", nodes) == population]
                yield population, np.array([int(r["node_ids"]) for r in mine]), np.array([float(r["timestamps"]) for r in mine])
            return
        with self.hdf5.File(path, "r") as file:
            group = file["spikes"]
            if "timestamps" in group:
                key = "gids" if "gids" in group else "node_ids"
                if not isinstance(nodes, str):
                    raise ValueError(f"{place}: expected the population's name as node_set, got {nodes!r}")
                yield nodes, np.asarray(group[key]).astype(int), np.asarray(group["timestamps"]).astype(float)
                return
            for population, data in group.items():
                unit = data["timestamps"].attrs.get("units", "ms")
                unit = unit.decode() if isinstance(unit, bytes) else unit
                if unit not in ("ms", "milliseconds", "s", "seconds"):
                    raise ValueError(f"{path}: expected timestamps in ms or s, got {unit!r}")
                scale = 1.0 if unit.startswith("m") else 1e3
                ids = np.asarray(data["node_ids"]).astype(int)
                yield population, ids, np.asarray(data["timestamps"]).astype(float) * scale

    def add_populations(self):
        trains = self.read_inputs()
        for name, nodes in self.nodes.items():
            mine = trains.pop(name, {})
            virtual = {node for part in nodes["parts"] if part["virtual"] for node in part["ids"].tolist()}
            stray = sorted(set(mine) - virtual)
            if stray:
                raise ValueError(f"inputs: expected spikes of virtual nodes of {name}, got some of node {stray[0]}")
            nodes["made"] = []
            for part in nodes["parts"]:
                if part["virtual"]:
                    listed = [self.train(mine.get(node, []), f"{name}, node {node}") for node in part["ids"].tolist()]
                    made = self.network.population(part["name"], len(listed), "spikes", trains_ms=listed)
                else:
                    made = self.add_part(part)
                nodes["made"].append(made)

    def train(self, times, place):
        """Times of steps: a spike at the time t ends its step."""
        steps = np.ceil(np.sort(np.asarray(times, dtype=float)) / self.step_ms - 1e-6) - 1
        if len(steps) and steps[0] < 0:
            raise ValueError(f"spikes of {place}: expected times above 0 ms, got {min(times)} ms")
        if len(np.unique(steps)) < len(steps):
            raise ValueError(f"spikes of {place}: expected one spike per step of {self.step_ms} ms, got two")
        return (steps * self.step_ms).tolist()

    # ---- Edges ----

    def read_edges(self):
        folder = self.circuit.get("components", {}).get("synaptic_models_dir")
        for files in self.enabled("edges"):
            types = self.types(files.get("edge_types_file"), "edge_type_id")
            with self.hdf5.File(files["edges_file"], "r") as file:
                for name, group in file["edges"].items():
                    self.add_edges(name, group, types, folder, files["edges_file"])

    def ends(self, data, place):
        """Population and places of the nodes of one end of edges."""
        name = data.attrs.get("node_population", data.attrs.get("network"))
        name = name.decode() if isinstance(name, bytes) else name
        if name not in self.nodes:
            raise ValueError(f"{place}: expected a node_population of {sorted(self.nodes)}, got {name!r}")
        nodes, ids = self.nodes[name], np.asarray(data).astype(int)
        order = np.argsort(nodes["ids"])
        where = np.searchsorted(nodes["ids"][order], ids)
        found = where < len(order)
        found[found] = nodes["ids"][order][where[found]] == ids[found]
        if not found.all():
            raise ValueError(f"{place}: population {name} has no node {ids[~found][0]}")
        return nodes, order[where]

    def column(self, name, kinds, own, types, place, default=None):
        """An attribute of each edge: its own value, or that of its type."""
        values = own.get(name, np.full(len(kinds), np.nan)).copy()
        for kind in np.unique(kinds):
            missing = (kinds == kind) & np.isnan(values)
            if not missing.any():
                continue
            text = types[int(kind)].get(name, default)
            if text is None:
                raise ValueError(f"{place}, type {kind}: expected {name} of the edges or of their type, got neither")
            try:
                values[missing] = float(text)
            except ValueError:
                raise ValueError(f"{place}, type {kind}: expected a number as {name}, got {text!r}") from None
        return values

    def add_edges(self, name, group, types, folder, path):
        place = f"{path}: edges of {name}"
        kinds, own = self.table(group, "edge", types, place)
        for kind in np.unique(kinds):
            row, where = types[int(kind)], f"{place}, type {kind}"
            if row.get("model_template", "") not in _SYNAPSES:
                raise ValueError(f"{where}: expected the model_template static_synapse, got {row['model_template']!r}")
            if row.get("weight_function", "default_weight_fnc") != "default_weight_fnc":
                raise ValueError(f"{where}: weight_function {row['weight_function']!r} is code that SONATA does not hold")
            extra = sorted(self.dynamics(row, folder, where))
            if extra:
                raise ValueError(f"{where}: expected static synapses without parameters, got {extra[0]!r}")
        if not len(kinds):
            return
        source, sources = self.ends(group["source_node_id"], place)
        target, targets = self.ends(group["target_node_id"], place)
        weights = self.column("syn_weight", kinds, own, types, place)
        weights = weights * self.column("nsyns", kinds, own, types, place, default="1")
        # 1 ms is the default of NEST's static synapse.
        delays = np.rint(self.column("delay", kinds, own, types, place, default="1") / self.step_ms).astype(int)
        if delays.min() < 1 or delays.max() > 255:
            raise ValueError(
                f"{place}: expected delays of 1 to 255 steps of {self.step_ms} ms, got {delays.min()} to {delays.max()} steps"
            )
        negative = weights < 0
        pairs = np.stack([source["part"][sources], target["part"][targets], negative], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        for number, (of, onto, inhibits) in enumerate(distinct):
            chosen = (which.reshape(-1) == number).nonzero()[0]
            part = target["parts"][onto]
            if part["virtual"]:
                raise ValueError(f"{place}: {part['name']} is virtual and takes no edges")
            conductance = part["model"].endswith("cond_exp")
            listed = [
                {"source": s, "target": t, "weight": w, "delay_steps": d}
                for s, t, w, d in zip(
                    source["index"][sources[chosen]].tolist(),
                    target["index"][targets[chosen]].tolist(),
                    (np.abs(weights[chosen]) if conductance else weights[chosen]).tolist(),
                    delays[chosen].tolist(),
                    strict=True,
                )
            ]
            receptor = ("gaba_a" if inhibits else "ampa") if conductance else None
            self.network.project(source["made"][of], target["made"][onto], {"list": {"synapses": listed}}, receptor=receptor)

    def read(self):
        self.read_nodes()
        self.add_populations()
        self.read_edges()
        neurons = {}
        for name, nodes in self.nodes.items():
            firsts = np.array([made.first for made in nodes["made"]])
            neurons[name] = firsts[nodes["part"]] + nodes["index"]
        return SonataNetwork(self.network, neurons, self.milliseconds)


def read_sonata(path, *, step_ms=None, seed=0):
    """Reads a SONATA network from its configuration, of the circuit or of a simulation; docs/spiking.md lists what is read.

    `step_ms` replaces the configuration's `dt`. The result has `network`, which `build` makes ready to run; `neurons`, the
    number of each node's neuron in the engine, by population and in the order of the nodes; and `milliseconds`, the
    configuration's `tstop`. Models, synapses and inputs that Betz does not have are refused by name. Needs h5py.
    """
    return _Reader(path, step_ms, seed).read()
