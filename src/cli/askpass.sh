#!/bin/sh
# What ssh runs to ask for a password (ssh(1), SSH_ASKPASS).
printf "%s\n" "$MOTE_ASKPASS"
