def post_worker_init(worker):
    from shop import jobs

    jobs.start()


def worker_exit(server, worker):
    from shop import jobs

    jobs.stop()
