# What a person types. `make lab` is all a student needs; everything lands in .venv.
# MINILLM_TORCH=auto|cpu|cuda chooses the PyTorch build, PYTHON=... the interpreter for .venv.

VENV_PYTHON := .venv/bin/python
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup lab dashboard progress test test-long exercises grade gradescope site serve-site lint lock cluster clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv, install the pinned packages, fetch and convert the default model
	@sh tools/with_python.sh tools/setup.py

lab: setup ## open the course in JupyterLab (sets up first; a second start takes seconds)
	@$(VENV_PYTHON) tools/lab.py

dashboard: setup ## open the live dashboard: one engine, everybody's requests (ARGS="--simulate H100-80GB-SXM")
	@$(VENV_PYTHON) tools/dashboard.py $(ARGS)

progress: setup ## show which lessons, checks and quizzes you have done (kept on this machine alone)
	@$(VENV_PYTHON) -m widgets.progress

test: setup ## run the tests
	@$(VENV_PYTHON) -m pytest -m "not slow" $(PYTEST_ARGS)

test-long: cluster ## run the tests, the slow ones and Ray's too
	@$(VENV_PYTHON) -m pytest $(PYTEST_ARGS)

cluster: setup ## install Ray Serve too (the extra `cluster`, about 400 MB)
	@$(VENV_PYTHON) -m pip --disable-pip-version-check install --quiet --no-compile --requirement requirements-cluster.txt

exercises: setup ## make the exercises' notebooks from their sources in grading/source
	@$(VENV_PYTHON) -m grading.release

grade: setup ## grade a folder of submissions: make grade DIR=submissions OUT=grades.csv
	@$(VENV_PYTHON) -m grading.grade "$(DIR)" "$(or $(OUT),grades.csv)"

gradescope: setup ## build the autograders for Gradescope, one a lesson and one of all (or LESSON=05)
	@$(VENV_PYTHON) -m grading.gradescope_zip $(LESSON)

site: ## build the course as static files that need no install: dist/site (docs/site.md)
	@sh tools/with_python.sh -m tools.site

serve-site: ## show dist/site on this machine (PORT=8000)
	@sh tools/with_python.sh -m tools.site.serve --port "$(or $(PORT),8000)"

lint: setup ## check style with ruff
	@$(VENV_PYTHON) -m ruff check .

lock: setup ## write requirements.lock from what is installed in .venv
	@$(VENV_PYTHON) tools/lock.py

clean: ## remove .venv, builds and caches (notebooks and the converted model stay)
	rm -rf .venv build dist test-results .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
