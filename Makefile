# Everything a newcomer, a developer and CI type. `make help` explains.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# uv from the machine, else one of our own; never another interpreter than the machine's.
export UV_PYTHON_DOWNLOADS := never
UV := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
RUN := $(UV) run --quiet
VERSION_OF_UV := 0.13.7
# Two clusters, each with half of the tests: most of a test is waiting. A cluster that was given cannot be doubled.
SIDE_BY_SIDE := $(if $(filter existing,$(PROVIDER)),,--numprocesses 2 --dist loadfile --no-loadscope-reorder)

.PHONY: help up shell down test check format generate images control chaos bench tools

help: ## show this
	@echo "The two commands to start with:  make up   and   make test"
	@echo
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
	@echo
	@echo "PROVIDER=embedded|kind|existing chooses the Kubernetes; KUBERNETES=1.34 its version (embedded only)."

up: tools images ## a Kubernetes, the operator in it and a first cluster of Valkey, from a bare machine; again: only what changed
	@$(RUN) devcluster up $(if $(KUBERNETES),--kubernetes $(KUBERNETES))
	@$(RUN) devcluster load all
	@$(RUN) devcluster helm -- upgrade --install valkey-operator charts/valkey-operator --take-ownership \
	    --namespace valkey-system --create-namespace --set image.tag=dev,image.pullPolicy=Never >/dev/null
	@$(RUN) devcluster kubectl -- rollout restart deployment/valkey-operator --namespace valkey-system >/dev/null
	@$(RUN) devcluster kubectl -- rollout status deployment/valkey-operator --namespace valkey-system
	@$(RUN) devcluster kubectl -- apply --filename deploy/devcluster.yaml --filename samples/quickstart.yaml
	@$(RUN) devcluster kubectl -- wait valkeycluster/quickstart --for=jsonpath='{.status.state}'=Ready --timeout=60s
	@echo
	@echo "A cluster of Valkey is up, and the operator that looks after it. Try:"
	@echo "  export KUBECONFIG=\$$($(RUN) devcluster kubeconfig)"
	@echo "  $(RUN) devcluster kubectl -- exec quickstart-0-0-0 -- valkey-cli -c -h quickstart set hello world"
	@echo "  $(RUN) devcluster kubectl -- get valkeyclusters --watch"
	@echo "  make shell                       a shell with kubectl in it"
	@echo "  $(RUN) devcluster fault --help   things to break"
	@echo "  make test                        every test, on this cluster"
	@echo "  make down                        end it, leave nothing"

shell: tools ## a shell with kubectl and kubectl-valkey in it, for the cluster that is up
	@$(RUN) devcluster shell

down: tools ## end the cluster of this checkout and leave nothing of it
	@$(RUN) devcluster down

test: tools images ## every test but the hours-long ones, on the cluster that is up, else on one of its own, and on a second one
	@$(RUN) pytest tests/unit --numprocesses 4 --quiet
	@$(RUN) pytest --ignore tests/unit $(SIDE_BY_SIDE)
	@$(RUN) python -m tools.rights --check

check: tools ## format, lint, types, imports, generated files, shell and Containerfiles
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy
	@$(RUN) lint-imports
	@$(RUN) python -m tools.generate --check
	@$(RUN) python -m tools.compatibility
	@$(RUN) python -m tools.contract
	@git ls-files -co --exclude-standard | while read -r file; do \
	    case $$file in *.sh|.ci/run) echo "$$file";; esac; done | xargs $(RUN) shellcheck
	@git ls-files -co --exclude-standard | grep -E '(^|/)Containerfile$$' | xargs $(RUN) hadolint
	@echo "make check: all well"

format: tools ## put all Python into its usual form
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

generate: tools ## write what is generated: CRDs, the API's page, the contract's code, the chart's schema, plain manifests
	@$(RUN) python -m tools.generate

images: tools ## build the images that changed
	@$(RUN) devcluster images

control: tools images ## show 20 times that the writing checker catches lost writes
	@CONTROL_RUNS=20 $(RUN) pytest tests/chaos -k control -q

chaos: tools images ## what takes long: a thousand of each attack on our ports, hundreds of rotations and kills, twelve seeds of everything that must lose nothing
	@FUZZ_CASES=1000 $(RUN) pytest -q -rP tests/fuzz
	@CUTS=all $(RUN) pytest -q tests/apiserver/test_operator_cuts.py
	@EXPIRIES=3 $(RUN) pytest -q -m slow
	@ROTATIONS=200 KILLS=50 AWAY=60 OPERATOR_AWAY=600 CHAOS_SEEDS=12 HARDSHIP_SECONDS=60 $(RUN) pytest -q -rP tests/e2e/test_certificates.py \
	    tests/e2e/test_events.py tests/e2e/test_away.py tests/chaos/test_replicated.py tests/chaos/test_unplanned.py \
	    tests/chaos/test_hardship.py tests/chaos/test_changed_minds.py tests/chaos/test_cluster.py \
	    tests/chaos/test_cluster_healing.py tests/chaos/test_cluster_hardship.py tests/chaos/test_control.py

bench: tools images ## figures of the ground and of the runtime, one JSON line each
	@$(RUN) python -m bench.ground
	@$(RUN) python -m bench.runtime

tools: .venv/.ready

.venv/.ready: $(UV) pyproject.toml devcluster/pyproject.toml uv.lock
	@$(UV) sync --quiet --locked
	@touch $@

.tools/bin/uv:
	@echo "installing uv $(VERSION_OF_UV) into .tools"
	@python3 -m venv .tools
	@.tools/bin/pip install --quiet uv==$(VERSION_OF_UV)
