# make setup, build, test are all that a user needs; check before each commit.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME ?= 30s

# The model that demo answers with, and further flags of generate compare.
MODEL ?= models/needle-qwen2
FLAGS ?=

.PHONY: setup nvrtc build demo test lint check page fuzz bench peers clean

setup: # tools, Go modules, and the static library of the tokenizer
	@tools/setup/check.sh
	@go mod download
	@tools/setup/archive.sh

build: setup
	go build -trimpath -ldflags '-s -w -extldflags=-Wl,--gc-sections' -o bin/generate ./cmd/generate

demo: build # one long prompt, answered with exact and with sampled attention
	@bin/generate compare --length 4096 --codes 8 --budget 256 $(FLAGS) $(MODEL)

nvrtc: # the compiler with which the tests compile every GPU kernel
	@tools/cuda/setup.sh

test: setup nvrtc
	go vet ./...
	REQUIRE_NVRTC=1 go test -timeout 60m ./...

lint: setup
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "gofmt -w is due for:"; echo "$$files"; exit 1; }
	go run $(STATICCHECK) ./...

check: lint
	go vet ./...
	go test -race -timeout 60m ./...
	python3 -B -m unittest discover -s tools/datasets
	python3 -B -m unittest discover -s tools/evaluation

page: build # a report page in headless Chromium; build/page/*.png are there to be looked at
	@tools/report/check.sh

fuzz: setup # every fuzz target for FUZZTIME
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

bench: setup
	go test -run '^$$' -bench . -benchmem ./...

peers: build # on a GPU, beside PyTorch and transformers
	@tools/cuda/compare.sh

clean:
	rm -rf bin build
