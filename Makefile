# make demo, make test: both make .venv and install what they need; python3, git and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: install demo test check format schema constraints bench clean

install: $(INSTALLED)  ## .venv with hubpublish and everything that its tests need

demo: $(INSTALLED)  ## The whole of `hubpublish run` on a Hub on this machine, with a model that it builds
	$(BIN)/hubpublish demo

test: check  ## Formatting, lint, types, and every test; installs a software GPU and a browser where it may
	bash tests/install_system.sh
	bash tests/browser/install.sh
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy .github/scripts/*.py

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(INSTALLED)  ## schema/recipe.schema.json from hubpublish/recipe
	$(BIN)/python -m hubpublish.recipe schema/recipe.schema.json

constraints: $(INSTALLED)  ## Newer versions of what CI installs, with hashes and without an index
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
		--all-extras --group dev --upgrade pyproject.toml --output-file constraints.txt

bench: $(INSTALLED)  ## What a rewrite costs and how that grows, what its result costs, runs with nothing to do
	$(BIN)/python bench/rewrite.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/large.py
	$(BIN)/python bench/model.py
	$(BIN)/python bench/nothing_to_do.py

clean:
	rm -rf $(VENV) demo out dist tests/browser/node_modules

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement constraints.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
