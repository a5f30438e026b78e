import os, socket, sys, threading, urllib.request
from flask import Flask

app = Flask(__name__)
seen = []

def nats(*lines):
    file = socket.create_connection((os.environ["NATS"], 4222)).makefile("rwb")
    file.readline()
    for line in ('CONNECT {"verbose":false}', *lines):
        file.write(f"{line}\r\n".encode())
    file.flush()
    return file

def listen():
    file = nats("SUB orders 1")
    for line in file:
        if line.startswith(b"MSG"):
            seen.append(file.readline().decode().strip())
        elif line.startswith(b"PING"):
            file.write(b"PONG\r\n")
            file.flush()

if sys.argv[1] == "counter":
    threading.Thread(target=listen, daemon=True).start()

@app.get("/")
def show():
    return ",".join(seen) if sys.argv[1] == "counter" else urllib.request.urlopen(os.environ["COUNTER"]).read()

@app.post("/<name>")
def publish(name):
    nats(f"PUB orders {len(name)}", name, "PING").readline()
    return "published\n"

app.run(host="::", port=8000)
