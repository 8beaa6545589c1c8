"""Tests of the Arrow Flight service and of edt as a Flight client, with clients and services that are not edt's."""
