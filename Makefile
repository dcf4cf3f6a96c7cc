# Two commands: `make run` does the investigation, `make test` tests the workbook. Both set up what they
# need on first use (scripts/bootstrap.py). All paths are relative, so the checkout may live anywhere.
#
#   make run TORCH="torch==2.13.0"    another torch, in pip's words (remembered; TORCH=lock goes back)
#   make run PYTHON=python3.12        another Python

export TORCH PYTHON
PY := .venv/bin/python

.PHONY: help setup run test test-long lab lint bench bench-sweep notebooks clean

help:
	@echo "make run        build, check, profile and compare the paged-attention arms; write notebooks, records, HTML"
	@echo "make test       all tests, the notebooks' committed outputs among them"
	@echo "make test-long  the tests that take minutes: killed runners, many hosts, JupyterLab in a browser"
	@echo "make lab        JupyterLab on the notebooks"
	@echo "make lint       formats and lints: Python, kernels, notebooks"
	@echo "make bench      the emulated board's speed on this machine"
	@echo "make bench-sweep  a sweep of 60 jobs against one job after another; 1,000 records collected and reported"
	@echo "make notebooks  execute the notebooks and write their outputs back"
	@echo "make clean      remove caches and runs (not .venv)"

setup:
	@sh scripts/setup.sh

run: setup
	@$(PY) -m hipbook reproduce

test: setup
	@$(PY) -m pytest --nbval tests notebooks

test-long: setup
	@$(PY) -m pytest tests -m long

lab: setup
	@$(PY) -m jupyterlab notebooks/00_board.ipynb $$(test "$$(id -u)" -ne 0 || echo --allow-root)

lint: setup
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@git ls-files -z '*.hip' '*.h' '*.c' | xargs -0 -r .venv/bin/clang-format --dry-run --Werror
	@$(PY) -m hipbook notebooks check

bench: setup
	@$(PY) bench/emulator.py

bench-sweep: setup
	@$(PY) bench/sweep.py

notebooks: setup
	@$(PY) -m hipbook notebooks execute

clean:
	@test ! -x $(PY) || $(PY) -m hipbook clean
	@rm -rf runs build .pytest_cache .ruff_cache .hypothesis
