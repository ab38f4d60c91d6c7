# Asks Optuna for the next trial of a sweep (`sampler = "optuna"`): reads all that is known of it as a line of JSON, and
# writes what Optuna proposes as another. It keeps nothing, so that a sweep survives its end and dlrun's.
import importlib, json, sys, warnings

answers, sys.stdout = sys.stdout, sys.stderr  # nothing but answers comes where dlrun reads them
warnings.simplefilter("ignore")

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

optuna.logging.set_verbosity(optuna.logging.ERROR)
# Optuna would miss them only after the first ten trials.
NEEDS = {"gp": ["scipy", "torch"], "cmaes": ["cmaes"]}
STATES = {"complete": TrialState.COMPLETE, "running": TrialState.RUNNING, "fail": TrialState.FAIL}


def sampler(kind, seed, population):
    for module in NEEDS.get(kind, []):
        importlib.import_module(module)
    if kind == "gp":
        return optuna.samplers.GPSampler(seed=seed)
    if kind == "cmaes":
        return optuna.samplers.CmaEsSampler(seed=seed)
    if kind == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=population)
    return optuna.samplers.TPESampler(seed=seed)


def distribution(one):
    if "choices" in one:  # by their places: Optuna would take 1, 1.0 and True for the same
        return CategoricalDistribution(range(one["choices"]))
    if "step" in one:
        return IntDistribution(one["low"], one["high"], log=one["log"], step=one["step"])
    return FloatDistribution(one["low"], one["high"], log=one["log"])


def suggest(trial, one):
    name, over = one["name"], distribution(one)
    if "choices" in one:
        return trial.suggest_categorical(name, over.choices)
    if "step" in one:
        return trial.suggest_int(name, over.low, over.high, step=over.step, log=over.log)
    return trial.suggest_float(name, over.low, over.high, log=over.log)


def answer(request):
    space = {one["name"]: distribution(one) for one in request["space"]}
    study = optuna.create_study(
        sampler=sampler(request["sampler"], request["seed"], request["population"]),
        directions=["minimize"] * request["metrics"],
    )
    for known in request["trials"]:
        values = known["values"] and [float("inf") if value is None else value for value in known["values"]]
        trial = create_trial(
            state=STATES[known["state"]],
            values=values,
            params=known["params"],
            distributions={name: space[name] for name in known["params"]},
            system_attrs=known["attrs"],
        )
        study.add_trial(trial)
    trial = study.ask()
    # Also those whose condition does not hold: dlrun leaves them out, here and in its next request.
    params = {one["name"]: suggest(trial, one) for one in request["space"]}
    attrs = study.get_trials(deepcopy=False)[-1].system_attrs
    # What a sampler needs to continue; parameters come with each trial anyway.
    attrs = {name: value for name, value in attrs.items() if "relative_params" not in name}
    return {"params": params, "attrs": attrs, "optuna": optuna.__version__}


for line in sys.stdin:
    answers.write(json.dumps(answer(json.loads(line))) + "\n")
    answers.flush()
