import { Router } from 'express';

/**
 * GET /-/healthy and /-/ready. Routes are served only once configuration, store and port are there, and neither ever
 * waits for the service: an unready sidecar would take its application out of service.
 */
export function healthRoutes(): Router {
  return Router()
    .get('/-/healthy', (_request, response) => void response.type('text').send('delivery-watch is healthy\n'))
    .get('/-/ready', (_request, response) => void response.type('text').send('delivery-watch is ready\n'));
}
