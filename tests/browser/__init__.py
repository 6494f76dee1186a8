"""A publication in Transformers.js: in headless Chromium, and in Node."""
