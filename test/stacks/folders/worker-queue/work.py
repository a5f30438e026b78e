import os, redis, socket, sys
from flask import Flask

results = redis.Redis(host=os.environ["REDIS_HOST"])

class Queue:
    """A client for the text protocol of beanstalkd."""
    def __init__(self):
        self.file = socket.create_connection((os.environ["QUEUE_HOST"], 11300)).makefile("rwb")

    def ask(self, text):
        self.file.write(text.encode())
        self.file.flush()
        return self.file.readline().split()

    def put(self, body):
        return self.ask(f"put 0 0 60 {len(body)}\r\n{body}\r\n")

    def take(self):
        _, job, size = self.ask("reserve\r\n")
        body = self.file.read(int(size) + 2)[:-2].decode()
        self.ask(f"delete {job.decode()}\r\n")
        return body

if sys.argv[1] == "worker":
    queue = Queue()
    while True:
        word = queue.take()
        results.set(word, word.upper())

app = Flask(__name__)

@app.get("/")
def health():
    return "ready\n"

@app.post("/<word>")
def put(word):
    Queue().put(word)
    return "queued\n"

@app.get("/<word>")
def get(word):
    return results.get(word) or ("not yet\n", 404)

app.run(host="::", port=8000)
