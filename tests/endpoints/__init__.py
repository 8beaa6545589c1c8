"""Tests of the endpoints that other people's servers are, against those servers, started here."""
