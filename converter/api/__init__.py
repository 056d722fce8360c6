"""What is called from outside: conversion, explanation, bisection, and what others register."""
