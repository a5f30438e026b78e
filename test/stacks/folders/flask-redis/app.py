import os, redis
from flask import Flask

app = Flask(__name__)
store = redis.Redis(host=os.environ["REDIS_HOST"])

@app.get("/")
def count():
    return f"seen {store.incr('hits')} times\n"
