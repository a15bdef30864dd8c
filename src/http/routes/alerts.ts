import { Router } from 'express';
import type { Served } from '../server.ts';

/** GET /api/v1/alerts, JSON: alerts of the agent itself. */
export function alertsRoutes({ alerts }: Served): Router {
  return Router().get('/api/v1/alerts', (_request, response) => void response.json(alerts()));
}
